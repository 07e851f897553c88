"""A file of episodes → what its report needs, in one pass.

In    groups/*.jsonl, heldout/*.jsonl or episodes.jsonl
Out   Played: counts by stop, kept ranks, calls, scores by task, the place of each line
Not   words: those few that are shown are read again from their places
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from agentrl.attempt import Attempt, attempt_in
from agentrl.comparison import Scores
from agentrl.interval import Interval, share_of
from agentrl.report import tools
from agentrl.report.lines import Lost, number, placed
from agentrl.selection.objective import is_flat

RANKS = 16
"""Parts of a group from its lowest to its highest reward, of which kept ones are counted."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One episode without its words."""

    path: Path
    start: int
    """Where its line begins."""
    task: str
    reward: float | None
    """None where it cannot be scored."""
    tokens: int
    """Sampled."""
    turns: int


@dataclass(slots=True)
class Played:
    """The episodes of one file, counted line by line."""

    step: int | None
    """None for an evaluation."""
    stops: Counter[str] = field(default_factory=Counter)
    calls: tools.Calls = field(default_factory=Counter)
    kept: int = 0
    reward_kept: float | None = None
    """Mean reward of what was trained on."""
    ranks: tuple[float | None, ...] = ()
    """Share kept of each part of the groups with contrast, lowest rewards first; empty where
    nothing was chosen, None where no group reaches into the part."""
    scores: Scores = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    """Of evaluations alone."""

    @property
    def episodes(self) -> int:
        """How many there are."""
        return self.stops.total()

    @property
    def accuracy(self) -> Interval | None:
        """Share of correct ones among those that can be scored, by task."""
        rows = [[s[0] for s in task.values() if s is not None] for task in self.scores.values()]
        filled = [row for row in rows if row]
        return share_of([sum(row) for row in filled], [len(row) for row in filled])


def read(
    path: Path,
    lost: Lost,
    *,
    step: int | None = None,
    chosen: bool = False,
    remember: bool = True,
) -> Played:
    """Count a file.

    Args:
        path: Its lines are read one after the other.
        lost: Is told of lines that are no episode.
        step: What the file is of.
        chosen: Whether some of its rows were trained on.
        remember: Whether places are kept, and, of an evaluation, attempts.
    """
    played = Played(step)
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    seen: Counter[tuple[str, int]] = Counter()
    for start, row in placed(path, lost):
        try:
            attempt = attempt_in(row)
            tools.count(played.calls, row)
        except (KeyError, TypeError, ValueError, AttributeError):
            lost[path.name] += 1
            continue
        reward = number(attempt.reward) if attempt.valid else None
        played.stops[attempt.stop] += 1
        score = None if reward is None else (float(bool(attempt.correct)), reward)
        played.scores.setdefault(attempt.task, {})[attempt.member] = score
        if remember:
            played.seen.append(
                Seen(path, start, attempt.task, reward, attempt.tokens, attempt.turns)
            )
            if step is None:
                played.attempts.append(attempt)
        if chosen and reward is not None:
            # Tasks may share a name that somebody gave them: the same member again is another.
            seen[attempt.task, attempt.member] += 1
            group = f"{attempt.task} {seen[attempt.task, attempt.member]}"
            groups[group].append((reward, row.get("kept") is True))
    if chosen:
        _note_choice(played, list(groups.values()))
    return played


def _note_choice(played: Played, groups: Sequence[Sequence[tuple[float, bool]]]) -> None:
    kept = [reward for group in groups for reward, was_kept in group if was_kept]
    played.kept = len(kept)
    played.reward_kept = fmean(kept) if kept else None
    played.ranks = kept_by_rank(groups)


def kept_by_rank(
    groups: Iterable[Sequence[tuple[float, bool]]], parts: int = RANKS
) -> tuple[float | None, ...]:
    """Share kept of each part of the groups, lowest rewards first; flat groups are left out.

    Equal rewards share their ranks: each counts as kept as much as they are on average.
    """
    sums, counts = [0.0] * parts, [0] * parts
    for group in groups:
        if is_flat([reward for reward, _ in group]):
            continue
        levels: dict[float, list[bool]] = defaultdict(list)
        for reward, kept in group:
            levels[reward].append(kept)
        shares = [fmean(levels[r]) for r in sorted(levels) for _ in levels[r]]
        for part in range(parts):
            # Of a group with fewer ranks than parts, several parts show the same one.
            first, last = part * len(shares) // parts, -(-(part + 1) * len(shares) // parts)
            sums[part] += sum(shares[first:last])
            counts[part] += last - first
    return tuple(s / c if c else None for s, c in zip(sums, counts, strict=True))


def by_task(played: Played) -> Mapping[str, float]:
    """Mean reward of each task that was scored."""
    rewards: dict[str, list[float]] = defaultdict(list)
    for one in played.seen:
        if one.reward is not None:
            rewards[one.task].append(one.reward)
    return {task: fmean(values) for task, values in rewards.items()}
