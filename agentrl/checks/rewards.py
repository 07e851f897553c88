"""Checks of rewards: the reference solution earns the most, wrong and empty answers do not.

In    a Bench
Out   Problems; Skip where no task has a reference
Not   a search for other ways to be paid: only a few wrong answers are tried
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from agentrl.checks.bench import DUNNO, Bench, Skip
from agentrl.checks.report import Problem
from agentrl.task import Task
from agentrl.trajectory import Stop, Trajectory

SLACK = 1e-9
MOST_AGAIN = 3
"""Times that a turn is said again."""
CALL = "<tool_call>"


def reference(bench: Bench) -> Iterator[Problem]:
    """The reference solution is correct."""
    where = bench.subject.line("reward")
    for task in bench.referred:
        played, beyond = bench.play(task, task.reference or ())
        if played.stop is Stop.ENV_ERROR:
            yield Problem(bench.subject.told(played.problem), _broke(played), "Mend that line.")
        elif beyond or not played.stop.terminated:
            yield Problem(
                bench.subject.line("reply", "tasks"),
                f"the episode of {_name(task)} is not over with its reference (it ended by "
                f"{played.stop}).",
                "Give all of its turns, or end the episode where the task is done.",
            )
        elif not played.correct:
            failed = [o.content for t in played.turns for o in t.outcomes if o.status != "ok"]
            yield Problem(
                where,
                f"the reference of {_name(task)} earns {_reward(played)} and is not correct"
                f"{f'; a call of it was answered {failed[0][:100]!r}' if failed else ''}.",
                "Mend the reward, the reference or the gold answer.",
            )
        else:
            continue
        return
    bench.notes.append(f"{len(bench.referred)} references played")


def wrong(bench: Bench) -> Iterator[Problem]:
    """Wrong and empty answers earn less than the reference, and are not correct."""
    where, referred = bench.subject.line("reward"), bench.referred
    for task in referred[:3]:
        first = bench.sound(task, task.reference or ())
        if not first.correct:
            raise Skip("the reference is not correct itself")
        best = first.reward
        for label, words in _attempts(bench, task, referred):
            played = bench.sound(task, words)
            if played.correct:
                why = f"{label} counts as correct for {_name(task)}."
            elif best is not None and played.reward is not None and played.reward >= best:
                why = f"{label} earns {_reward(played)} for {_name(task)}, the reference {best:g}."
            else:
                continue
            yield Problem(where, why, "Give the top reward for right answers alone.")
            return
        if best is not None and (more := _milked(bench, task)) > best + SLACK:
            yield Problem(
                where,
                f"the reference of {_name(task)} earns {best:g}, and {more:g} where its first turn "
                "is said again and again.",
                "Pay for a thing once, at its first time in an episode.",
            )
            return


def _milked(bench: Bench, task: Task) -> float:
    """What the reference earns where its first turn is repeated as often as there is room."""
    words = task.reference or ()
    room = min(bench.env.max_turns - len(words), MOST_AGAIN)
    if len(words) < 2 or room < 1:
        return -math.inf
    played = bench.sound(task, (*words[:1] * room, *words))
    return -math.inf if played.reward is None else played.reward


def _attempts(
    bench: Bench, task: Task, others: Sequence[Task]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "an empty answer", ("",)
    yield f"the answer {DUNNO!r}", (DUNNO,)
    yield "a call of each tool", (*bench.scripts(task)[-1][:-1], DUNNO)
    yield from _everything(task, others)
    own = (task.reference or ("",))[-1]
    for other in others:
        said = (other.reference or ("",))[-1]
        if other.answer != task.answer and said != own:
            yield "the answer to another task", (said,)
            return


def _everything(task: Task, others: Sequence[Task]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The reference whose last turn names the answers of other tasks as well."""
    *before, own = task.reference or ("",)
    lasts = [(other.reference or ("",))[-1] for other in others if other.answer != task.answer]
    said = [last for last in dict.fromkeys(lasts) if last != own]
    if len(said) > 1 and not any(CALL in last for last in (own, *said)):
        # Neither first nor last, where an answer may rightly be looked for.
        half = len(said) // 2
        text = " ".join((*said[:half], own, *said[half:]))
        yield "an answer that names the answers of other tasks too", (*before, text)


def _broke(played: Trajectory) -> str:
    return f"the reference of {_name(played.task)} broke it: {' '.join(played.problem.split())}"


def _reward(played: Trajectory) -> str:
    return "no reward" if played.reward is None else f"{played.reward:g}"


def _name(task: Task) -> str:
    return f"{task.split} task {task.id[:12]}"
