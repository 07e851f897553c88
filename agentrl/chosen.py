"""Groups → Chosen: what the update sees of them, and with which advantage.

In    played groups and the settings of selection
Out   selection, advantages and a mark per trajectory; samples for the learner
Not   a reward of its own: rows are chosen on rewards alone, before any log-prob is computed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from agentrl.advantage import advantages
from agentrl.group import Group
from agentrl.record import Mark
from agentrl.sample import Sample
from agentrl.selection import Selection, effective_tokens, select
from agentrl.selection.question import Question
from agentrl.selection.truncation import judged
from agentrl.trajectory import Branch, Trajectory

UNSCALED = frozenset({"dr_grpo"})
"""Losses whose advantages are not divided by the deviation."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A step's selection over all groups."""

    trajectories: tuple[Trajectory, ...]
    """Every trajectory of the step, group by group."""
    selection: Selection
    marks: tuple[Mark, ...]
    """One per trajectory."""
    oversize: int = 0
    """Trajectories too long for a micro-batch."""
    staleness: tuple[int, ...] = ()
    """Updates that each trajectory is behind the weights that would learn from it."""
    stale: int = 0
    """Trajectories further behind than is allowed."""

    @property
    def kept(self) -> list[tuple[Trajectory, Mark]]:
        """The rows that are trained on."""
        pairs = zip(self.trajectories, self.marks, strict=True)
        return [(t, mark) for t, mark in pairs if mark.kept]


def choose(
    groups: Sequence[Group],
    question: Question,
    *,
    stats: str,
    loss: str,
    seed: int,
    truncated: str = "score",
    attention_length: int = 0,
    most_tokens: int | None = None,
    version: int = 0,
    max_staleness: int | None = None,
) -> Chosen:
    """Select, then normalise each group's kept rewards.

    Args:
        groups: What was played.
        question: What selection is asked.
        stats: Whose rewards normalise advantages: subset or group.
        loss: The loss that they are for.
        seed: Seed of what is drawn.
        truncated: What the reward of a cut-off trajectory counts as: score, mask or zero.
        attention_length: Length at which attention costs as much as the rest; 0 counts tokens.
        most_tokens: A trajectory with a longer branch is out before anything is compared: no
            micro-batch holds it, and left out later it would have moved its group's mean.
        version: Of the weights that are about to learn.
        max_staleness: A trajectory with a token of weights further behind is out likewise: left
            out later it would have taken the place of another.
    """
    rows = [t for g in groups for t in g.trajectories]
    rewards, comparable = judged(
        [t.reward for t in rows], [t.stop.status == "truncated" for t in rows], truncated
    )
    oversize = [most_tokens is not None and longest(t) > most_tokens for t in rows]
    behind = tuple(staleness(t, version) for t in rows)
    stale = [max_staleness is not None and updates > max_staleness for updates in behind]
    valid = [
        t.valid and known and not (long or old)
        for t, known, long, old in zip(rows, comparable, oversize, stale, strict=True)
    ]
    selection = select(
        rewards,
        [t.num_tokens for t in rows],
        groups=[position for position, g in enumerate(groups) for _ in g.trajectories],
        valid=valid,
        seed=seed,
        costs=[_cost(t, attention_length) for t in rows] if attention_length else None,
        **asdict(question),
    )
    weights = dict(zip(selection.indices, selection.weights, strict=True))
    marks, start = [Mark()] * len(rows), 0
    for group in groups:
        own = slice(start, start + len(group.trajectories))
        kept = [i - start for i in selection.indices if own.start <= i < own.stop]
        values = advantages(
            rewards[own], kept, stats=stats, scale=loss not in UNSCALED, valid=valid[own]
        )
        for i, value in zip(kept, values, strict=True):
            marks[start + i] = Mark(kept=True, advantage=value, weight=weights[start + i])
        start = own.stop
    return Chosen(tuple(rows), selection, tuple(marks), sum(oversize), behind, sum(stale))


def staleness(trajectory: Trajectory, version: int) -> int:
    """Updates since the oldest weights that any of its tokens came from; 0 where none did."""
    return version - trajectory.oldest if trajectory.num_trained_tokens else 0


def longest(trajectory: Trajectory) -> int:
    """Tokens of the longest branch that is trained on."""
    return max((len(branch.input_ids) for branch in _trained(trajectory)), default=0)


def samples(chosen: Chosen) -> list[Sample]:
    """One sample per branch that was sampled in; those of a trajectory share its weight."""
    return [s for trajectory, mark in chosen.kept for s in _of_one(trajectory, mark)]


def _of_one(trajectory: Trajectory, mark: Mark) -> list[Sample]:
    branches = _trained(trajectory)
    return [
        Sample(
            input_ids=tuple(branch.input_ids),
            loss_mask=tuple(branch.loss_mask),
            logprobs=tuple(branch.logprobs),
            advantage=mark.advantage or 0.0,
            weight=mark.weight / len(branches),
        )
        for branch in branches
    ]


def _trained(trajectory: Trajectory) -> list[Branch]:
    """Branches that something was sampled in."""
    return [branch for branch in trajectory.branches if any(branch.loss_mask)]


def _cost(trajectory: Trajectory, attention_length: int) -> int:
    """Branches are forwarded apart, and kept or left together."""
    lengths = (len(branch.input_ids) for branch in trajectory.branches)
    return sum(effective_tokens(length, attention_length) for length in lengths)
