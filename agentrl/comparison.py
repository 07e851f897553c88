"""Two evaluations of the same tasks → their difference, paired by task.

In    recorded episodes of each
Out   Comparison: difference with its interval, exact sign test, what makes them unlike
Not   a difference of what is not alike, unless that is asked for; then it is named

Lines are read one after the other and only counted, so a hundred thousand fit easily.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl.errors import UsageError
from agentrl.header import ALIKE, unlike
from agentrl.interval import Interval, average, difference, share_of, sign_test
from agentrl.recorded import Recorded, task_of

Scores = dict[str, dict[int, tuple[float, float] | None]]
"""Task to member to (correct, reward); None where it cannot be scored."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changes from the first to the second."""

    first: str
    second: str
    tasks: int
    """Tasks that both have scored attempts at."""
    unpaired: int
    """Tasks that only one of them has."""
    accuracy: tuple[Interval | None, Interval | None]
    """Of each, on the paired tasks."""
    difference: Interval | None
    """Of accuracy: second minus first, mean over tasks of the task's own means."""
    reward: Interval | None
    """Difference of reward, likewise."""
    better: int
    """Tasks at which the second is better."""
    worse: int
    same: int
    p: float
    """Exact sign test: chance of so uneven a split, were both equally good."""
    unlike: tuple[str, ...]
    """What differs beside the policy."""

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        first, second = (found and found.as_json() for found in self.accuracy)
        return {
            "first": self.first,
            "second": self.second,
            "tasks": self.tasks,
            "unpaired": self.unpaired,
            "accuracy": {"first": first, "second": second},
            "difference": self.difference and self.difference.as_json(),
            "reward_difference": self.reward and self.reward.as_json(),
            "better": self.better,
            "worse": self.worse,
            "same": self.same,
            "p": self.p,
            "unlike": list(self.unlike),
        }


def compare(every: Sequence[Recorded], *, force: bool = False) -> list[Comparison]:
    """Compare all but the first with the first.

    Raises:
        UsageError: they are unlike in more than the policy, and `force` is not given; or they
            have no task in common.
    """
    # By hash where all have it: ids are an author's, and two tasks may share one.
    hashed = all("tasks_sha256" in one.header for one in every)
    scored = [_scores(one, task_of if hashed else _id) for one in every]
    reasons = [
        _unlike(every[0], one, scored[0], s) for one, s in zip(every[1:], scored[1:], strict=True)
    ]
    for one, why in zip(every[1:], reasons, strict=True):
        if why and not force:
            raise UsageError(
                f"{every[0].name} and {one.name}: unlike in more than the policy "
                f"({', '.join(why)}). Evaluate alike, or add --force to compare all the same."
            )
    return [
        paired(every[0].name, one.name, scored[0], found, why)
        for one, found, why in zip(every[1:], scored[1:], reasons, strict=True)
    ]


def _id(row: Mapping[str, Any]) -> str:
    return str(row["task_id"])


def _scores(recorded: Recorded, task: Callable[[Mapping[str, Any]], str]) -> Scores:
    found: Scores = {}
    for row in recorded.rows():
        try:
            valid = row["reward"] is not None and row["status"] != "error"
            score = (float(bool(row.get("correct"))), float(row["reward"])) if valid else None
            found.setdefault(task(row), {})[int(row["member"])] = score
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{recorded.name}: a line of task {row['task_id']} is no episode ({error}). "
                "Name another file, or take the line out."
            ) from error
    if not found:
        raise UsageError(f"{recorded.name}: it has no episodes yet. Let it end, or go on with it.")
    return found


def _unlike(one: Recorded, other: Recorded, scores: Scores, others: Scores) -> tuple[str, ...]:
    found = unlike(one.header, other.header, [n for n in ALIKE if n != "tasks_sha256"])
    if scores.keys() != others.keys():
        found.append(
            f"tasks: {len(scores.keys() & others.keys())} in common of {len(scores)}"
            f" and {len(others)}"
        )
    for recorded, known in ((one, scores), (other, others)):
        found += _unfinished(recorded, known)
    return tuple(found)


def _unfinished(recorded: Recorded, scores: Scores) -> list[str]:
    """What is missing of an evaluation that was broken off: what came quickly is not a sample."""
    wanted = int(recorded.header.get("tasks", 0)) * int(recorded.header.get("k", 0))
    there = sum(map(len, scores.values()))
    return [f"{recorded.name} has {there} of {wanted} episodes"] if there < wanted else []


def paired(
    first: str, second: str, scores: Scores, others: Scores, why: tuple[str, ...]
) -> Comparison:
    """Compare the scores of two.

    Raises:
        UsageError: there is no task that both have scored attempts at.
    """
    pairs = []
    for task in sorted(scores.keys() & others.keys()):
        one = [s for s in scores[task].values() if s is not None]
        other = [s for s in others[task].values() if s is not None]
        if one and other:
            pairs.append((one, other))
    if not pairs:
        raise UsageError(
            f"{first} and {second}: no task that both have scored attempts at. "
            "Evaluate both on the same tasks."
        )
    changes = [_mean(other, 0) - _mean(one, 0) for one, other in pairs]
    rewards = [[_mean(other, 1) - _mean(one, 1)] for one, other in pairs]
    better, worse = sum(c > 0 for c in changes), sum(c < 0 for c in changes)
    return Comparison(
        first,
        second,
        tasks=len(pairs),
        unpaired=len(scores.keys() | others.keys()) - len(pairs),
        accuracy=(_share([one for one, _ in pairs]), _share([other for _, other in pairs])),
        difference=difference(changes),
        reward=_reward_difference(rewards),
        better=better,
        worse=worse,
        same=len(changes) - better - worse,
        p=sign_test(better, worse),
        unlike=why,
    )


def _reward_difference(rewards: Sequence[Sequence[float]]) -> Interval | None:
    values = [value for row in rewards for value in row]
    if all(-1 <= value <= 1 for value in values):
        return difference(values)
    return average(rewards)


def _mean(scores: Sequence[tuple[float, float]], which: int) -> float:
    return sum(score[which] for score in scores) / len(scores)


def _share(rows: Sequence[Sequence[tuple[float, float]]]) -> Interval | None:
    return share_of([sum(correct for correct, _ in row) for row in rows], [len(r) for r in rows])


def against(comparisons: Sequence[Comparison]) -> Mapping[str, Any]:
    """The document that `agentrl compare --json` prints."""
    return {"comparisons": [one.as_json() for one in comparisons]}
