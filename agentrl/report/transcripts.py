"""Episodes → the few that are shown: the best, the worst, and tasks that changed most.

In    the last evaluation of a run, perhaps its first; or one step, or one evaluation
Out   Told: a conversation, cut short, with what it earned
Not   all of a conversation: `agentrl view` shows that
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentrl.report.episodes import Played, Seen, by_task
from agentrl.report.lines import at

MOST = 3
"""Of each kind."""
MESSAGES = 10
"""Of a conversation that are shown; the middle goes."""
CHARACTERS = 500
"""Of a message; the middle goes."""
Why = Literal["best", "worst", "changed"]


@dataclass(frozen=True, slots=True)
class Said:
    """One message."""

    role: str
    """task, policy, tool, or what the line says."""
    text: str
    """Empty where messages were left out: then the role says how many."""


@dataclass(frozen=True, slots=True)
class Told:
    """One episode."""

    why: Why
    when: str
    """before, after, or empty."""
    task: str
    reward: float | None
    stop: str
    turns: int
    tokens: int
    said: tuple[Said, ...]


def choose(last: Played | None, first: Played | None) -> tuple[Told, ...]:
    """The episodes to show; none where none can be scored.

    Args:
        last: What is shown of.
        first: What it is compared with; None where there is nothing before.
    """
    if last is None:
        return ()
    scored = [one for one in last.seen if one.reward is not None]
    rewards = {_reward(one) for one in scored} or {0.0}
    low, high = min(rewards), max(rewards)
    good = [one for one in scored if _reward(one) > low or low == high]
    best = _distinct(sorted(good, key=lambda s: (-_reward(s), -s.turns, s.tokens, s.task)))
    rest = [one for one in scored if _reward(one) < high and one not in best]
    worst = _distinct(sorted(rest, key=lambda s: (_reward(s), -s.turns, s.tokens, s.task)))
    found = [_told("best", "", one) for one in best] + [_told("worst", "", one) for one in worst]
    return (*found, *(_changed(first, last) if first is not None else ()))


def _changed(first: Played, last: Played) -> list[Told]:
    """An episode before and one after of each of the tasks whose mean reward moved most."""
    before, after = by_task(first), by_task(last)
    moved = sorted(
        (task for task in before.keys() & after.keys() if before[task] != after[task]),
        key=lambda task: (-abs(after[task] - before[task]), task),
    )
    found = []
    for task in moved[:MOST]:
        rise = after[task] > before[task]
        found.append(_told("changed", "before", _extreme(first.seen, task, highest=not rise)))
        found.append(_told("changed", "after", _extreme(last.seen, task, highest=rise)))
    return found


def _extreme(seen: Iterable[Seen], task: str, *, highest: bool) -> Seen:
    own = [one for one in seen if one.task == task and one.reward is not None]
    sign = -1 if highest else 1
    return min(own, key=lambda one: (sign * _reward(one), one.start))


def _distinct(ranked: Iterable[Seen]) -> list[Seen]:
    """The first ones of different tasks."""
    found: dict[str, Seen] = {}
    for one in ranked:
        if len(found) == MOST:
            break
        found.setdefault(one.task, one)
    return list(found.values())


def _reward(seen: Seen) -> float:
    return 0.0 if seen.reward is None else seen.reward


def _told(why: Why, when: str, seen: Seen) -> Told:
    row = at(seen.path, seen.start)
    # What the system says is the same everywhere.
    messages = [
        m for m in row.get("messages", ()) if isinstance(m, Mapping) and m.get("role") != "system"
    ]
    return Told(
        why,
        when,
        seen.task,
        seen.reward,
        str(row.get("stop")),
        seen.turns,
        seen.tokens,
        tuple(_shortened([_said(message) for message in messages])),
    )


def _shortened(said: Sequence[Said]) -> list[Said]:
    if len(said) <= MESSAGES:
        return list(said)
    head, tail = MESSAGES // 2, MESSAGES - MESSAGES // 2
    gap = Said(f"{len(said) - MESSAGES} messages are left out", "")
    return [*said[:head], gap, *said[-tail:]]


def _said(message: Mapping[str, Any]) -> Said:
    role = str(message.get("role"))
    shown = {"user": "task", "assistant": "policy"}.get(role, role)
    if role == "tool" and message.get("name"):
        shown = f"tool {_cut(str(message['name']), 40)}"
    parts = [str(message.get(key) or "") for key in ("reasoning_content", "content")]
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    return Said(shown, _cut("\n".join(part for part in (*parts, *calls) if part), CHARACTERS))


def _call(call: object) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return "calls ?"
    arguments = function.get("arguments")
    given = arguments if isinstance(arguments, Mapping) else {"": arguments}
    words = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in given.items())
    return f"calls {function.get('name')}({words})"


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} [… {len(text) - 2 * half} characters …] {text[-half:]}"
