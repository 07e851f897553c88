"""Check that the policy cannot read the gold answer: in no prompt, schema or tool's process.

In    a Bench
Out   Problems
Not   what tools answer: telling it there may be their purpose

Two ways, since words such as 7 are everywhere. A task gets another answer that no text holds by
chance; where that turns up, the environment passes answers on. And over some tasks their own
answers are compared with those of other tasks: where prompts hold their own far more often, the
task's author wrote it there. A task that must show its answer, as a text to read does, says so
with `meta={"shows_answer": True}` and is left out of the second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

from agentrl.checks.bench import Bench, with_answer
from agentrl.checks.report import Problem
from agentrl.checks.surroundings import descendants, told_to
from agentrl.env import ToolEnv
from agentrl.opening import opening_of
from agentrl.task import SPLITS, Task
from agentrl.trajectory import Stop

WORD = "quixolbrandt"
NUMBER = 918273645
SAMPLE = 40
"""Tasks whose prompts are read."""
SHARE = 0.5
"""Of prompts with their own answer, from which it is no accident."""


def gold(bench: Bench) -> Iterator[Problem]:
    """The gold answer is in no prompt, no schema, and no tool's process."""
    for task in bench.tasks[:1]:
        place = _planted(bench, task)
        if place:
            yield Problem(
                bench.subject.line("start", "tasks"),
                f"the gold answer is in {place}.",
                "Keep it in task.answer, where only reward looks.",
            )
            return
    shared = _written(bench)
    if shared > SHARE:
        yield Problem(
            bench.subject.line("tasks"),
            f"{shared:.0%} of prompts hold their own answer.",
            'Take it out; where it must be there, as in a text to read, set meta={"shows_answer": '
            "True}.",
        )


def _planted(bench: Bench, task: Task) -> str:
    """Where an answer turns up that was put into a task; empty if nowhere."""
    planted = with_answer(task, _disguised(task.answer))
    if planted.answer is None or planted.answer == task.answer:
        return ""
    env = bench.subject.make()
    seen: dict[str, str] = {}
    inner = env.astep

    async def watched(*args: Any, **kwargs: Any) -> Any:
        result = await inner(*args, **kwargs)
        seen.update({f"process {pid} of a tool": told_to(pid) for pid, _ in descendants()})
        return result

    env.astep = watched  # type: ignore[method-assign]
    played, _ = bench.play(planted, bench.words(task), env)
    if played.stop is Stop.ENV_ERROR:
        bench.notes.append("it takes no other answer, so only prompts were read")
        return ""
    seen["the opening"] = "\n".join(m["content"] for m in played.opening)
    seen["the schema of a tool"] = json.dumps(env.tool_schemas(), ensure_ascii=False)
    return next((place for place, text in seen.items() if _holds(text)), "")


def _disguised(answer: Any) -> Any:
    """An answer of the same shape that no text holds by chance."""
    if isinstance(answer, bool) or answer is None:
        return answer
    if isinstance(answer, Real):
        return type(answer)(NUMBER)  # type: ignore[call-arg]
    if isinstance(answer, str):
        return str(NUMBER) if re.fullmatch(r"-?[\d.,]+", answer) else WORD
    if isinstance(answer, list | tuple):
        return [_disguised(part) for part in answer]
    if isinstance(answer, dict):
        return {key: _disguised(part) for key, part in answer.items()}
    return answer


def _holds(text: str) -> bool:
    return WORD in text or str(NUMBER) in text


def _written(bench: Bench) -> float:
    """By how much more prompts hold their own answers than those of other tasks."""
    tasks = [t for t in _many(bench.env) if not (t.meta or {}).get("shows_answer")]
    texts = ["\n".join(m["content"] for m in opening_of("", task)) for task in tasks]
    golds = [_golds(task.answer) for task in tasks]
    known = [i for i, words in enumerate(golds) if words]
    if len(known) < 2:
        return 0.0
    own = sum(_any(golds[i], texts[i]) for i in known) / len(known)
    others = sum(_any(golds[i], texts[known[k - 1]]) for k, i in enumerate(known)) / len(known)
    return own - others


def _many(env: ToolEnv) -> list[Task]:
    out = []
    for split in SPLITS:
        source = env.task_source(split)
        count = min(SAMPLE // 2, len(source))
        out += [source[i * len(source) // count] for i in range(count)]
    return out


def _golds(answer: Any) -> list[str]:
    """The words that give an answer away; of lists and tables only the whole would."""
    if answer is None or isinstance(answer, bool):
        return []
    if isinstance(answer, str | int | float):
        return [str(answer)] if str(answer).strip() else []
    return [json.dumps(answer, ensure_ascii=False, default=str)]


def _any(words: Sequence[str], text: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words)
