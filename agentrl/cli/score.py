"""How an episode that a person played ended, in words.

In    the document that `agentrl envs play --json` prints
Out   a few lines
Not   JSON
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentrl.amounts import plural
from agentrl.visible import on_a_line

NEAR = 1e-9


def score(found: Mapping[str, Any]) -> str:
    """Why it ended, the reward with its parts, what was used, the answer that was wanted."""
    return "\n".join(on_a_line(line) for line in _lines(found))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    if found["stop"] is None:
        yield "left before the end: no reward."
        return
    if found["reward"] is None:
        yield f"stop {found['stop']} · no reward. {found['problem']}"
        return
    right = "correct" if found["correct"] else "not correct"
    yield f"stop {found['stop']} · reward {found['reward']:g} · {right}"
    yield from _parts(found["reward_parts"], found["reward"])
    calls, failed = found["tool_calls"], found["tool_failures"]
    yield f"{plural(found['turns'], 'turn')} · {plural(calls, 'tool call')}, {failed} failed"
    if found["answer"] is not None:
        yield f"the task's answer, which a policy is not shown: {found['answer']}"


def _parts(parts: Mapping[str, float], reward: float) -> Iterator[str]:
    """Each named part, and what tools paid beside them; one part alone is the reward."""
    rest = reward - sum(parts.values())
    rows = dict(parts) | ({"from tools": rest} if parts and abs(rest) > NEAR else {})
    width = max(map(len, rows), default=0)
    for name, value in rows.items() if len(rows) > 1 else ():
        yield f"  {name:<{width}}  {value:g}"
