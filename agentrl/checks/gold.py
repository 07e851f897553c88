"""Check that the policy cannot read the gold answer: in no prompt, schema or tool's process.

In    a Bench
Out   Problems
Not   what tools answer: telling it there may be their purpose

Two ways, since words such as 7 are everywhere. A task gets another answer that no text holds by
chance; where that turns up, the environment passes answers on. And over some tasks their own
answers are compared with those of other tasks: where prompts, or what `start` adds, hold their
own far more often, the author wrote it there. A task that must show its answer, as a text to read
does, says so with `meta={"shows_answer": True}` and is left out of the second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

from agentrl.checks.bench import SEED, Bench, with_answer
from agentrl.checks.report import Problem
from agentrl.checks.surroundings import descendants, told_to
from agentrl.env import ToolEnv
from agentrl.message import Message
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
    for what, writer, texts in (
        ("prompts", "tasks", _prompts(_many(bench.env))),
        ("openings", "start", _openings(bench)),
    ):
        shared = _shared(texts)
        if shared <= SHARE:
            continue
        yield Problem(
            bench.subject.line(writer, "tasks"),
            f"{shared:.0%} of {what} hold their own answer.",
            'Take it out; where it must be there, as in a text to read, set meta={"shows_answer": '
            "True}.",
        )
        return


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
    seen["the opening"] = _text(played.opening)
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
    return WORD in text.casefold() or str(NUMBER) in text


def _shared(texts: Sequence[tuple[Any, str]]) -> float:
    """By how much more of the texts hold their own answers than those of other tasks."""
    known = [(words, text.casefold()) for gold, text in texts if (words := _golds(gold))]
    if len(known) < 2:
        return 0.0
    own = sum(_any(words, text) for words, text in known)
    others = sum(_any(words, known[k - 1][1]) for k, (words, _) in enumerate(known))
    return (own - others) / len(known)


def _prompts(tasks: Sequence[Task]) -> list[tuple[Any, str]]:
    """Answers with the prompts that tasks bring along."""
    return [(t.answer, _text(opening_of("", t))) for t in tasks if not _shows(t)]


def _openings(bench: Bench) -> list[tuple[Any, str]]:
    """Answers with all that is said before the first turn, of a few tasks."""
    found = []
    for task in bench.tasks:
        if not _shows(task):
            env = bench.subject.make()
            try:
                opening, _ = env.reset(seed=SEED, options={"task": task})
                found.append((task.answer, f"{_text(opening)}\n{json.dumps(env.tool_schemas())}"))
            finally:
                env.close()
    return found


def _shows(task: Task) -> bool:
    return bool((task.meta or {}).get("shows_answer"))


def _text(messages: Sequence[Message]) -> str:
    return "\n".join(m["content"] for m in messages)


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
    if isinstance(answer, float) and answer.is_integer():
        return [str(answer), str(int(answer))]
    if isinstance(answer, str | int | float):
        return [str(answer).casefold()] if str(answer).strip() else []
    return [json.dumps(answer, ensure_ascii=False, default=str).casefold()]


def _any(words: Sequence[str], text: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words)
