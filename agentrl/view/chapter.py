"""The lines of one step → Chapter: its tasks, each with its trajectories by reward.

In    one file of episodes, or those of an evaluation; what makes a step's choice again
Out   Chapter of Groups of Briefs; a last line that was cut short is passed over
Not   words of a conversation, which stay in the file
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from agentrl.errors import UsageError
from agentrl.recorded import placed
from agentrl.selection.objective import is_flat, spread
from agentrl.view.brief import Brief, Place, brief_of, title_of, words_of
from agentrl.view.why import Terms, Why, whys

Kind = Literal["step", "held-out", "evaluation"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A step's selection, made again by the run's own settings."""

    terms: Terms
    method: str
    rewards: Sequence[float | None]
    """As they were compared, one a line."""
    costs: Sequence[int]
    out: Mapping[int, str]
    """Line to the reason why it could not be compared."""
    notes: Mapping[str, str]
    """Group to what was asked for it and could not be done."""
    budget: int | None
    gap: float
    """Share of the upper bound that was not reached."""
    q: float
    """Of all that is kept."""
    other: tuple[str, float] | None
    """The other rule that would keep the largest Q under the same limits, and that Q."""
    same: bool
    """Whether the run kept the same rows."""


Chooser = Callable[[Sequence[Brief], Sequence[str], int], Choice | None]
"""Briefs of a step, the group of each, and the step."""


@dataclass(frozen=True, slots=True)
class Group:
    """One task's trajectories."""

    task: str
    title: str
    words: tuple[str, ...]
    members: tuple[Brief, ...]
    """By reward, lowest first; those without one last."""
    why: tuple[Why, ...]
    """One a member; none where nothing was chosen."""
    mean: float | None
    """Reward of those that can be compared."""
    spread_all: float
    spread_kept: float
    flat: bool
    note: str = ""

    @property
    def kept(self) -> list[Brief]:
        """Those that were trained on."""
        return [b for b in self.members if b.kept]

    @property
    def size(self) -> int:
        """Bytes of its lines."""
        return sum(b.place.size for b in self.members)


@dataclass(frozen=True, slots=True)
class Chapter:
    """All groups of a step, of held-out tasks at a step, or of an evaluation."""

    kind: Kind
    step: int | None
    name: str
    """What a person calls it."""
    groups: tuple[Group, ...]
    choice: Choice | None = None
    problem: str = ""
    """Why the choice could not be made again."""

    @property
    def key(self) -> str:
        """The same of the same step in every run."""
        return self.kind if self.step is None else f"{self.kind}-{self.step}"

    @property
    def members(self) -> Iterable[Brief]:
        """Every trajectory."""
        return (b for g in self.groups for b in g.members)


@dataclass(slots=True)
class _Pile:
    """A group that is being read."""

    title: str
    words: tuple[str, ...]
    rows: dict[int, tuple[int, Brief]] = field(default_factory=dict)
    """Member to its line, counted from 0, and what it says."""


def read_chapter(
    kind: Kind, step: int | None, name: str, files: Sequence[Path], chooser: Chooser | None = None
) -> Chapter:
    """Read lines, one after the other.

    Args:
        kind: What was played.
        step: Of the run; None for an evaluation.
        name: What a person calls it.
        files: In order.
        chooser: Makes the choice of a training step again.

    Raises:
        UsageError: a line is no episode.
    """
    piles = _piles(files, replaces=kind != "step")
    choice, problem = None, ""
    if kind == "step" and chooser is not None and step is not None:
        try:
            choice = _chosen(piles, step, chooser)
        except UsageError as error:
            problem = str(error)
    told = kind == "step"
    # Rewards whose squares no float can hold have no spread that could be told.
    with np.errstate(over="ignore", invalid="ignore"):
        groups = tuple(_group(name, pile, choice, told) for name, pile in piles.items())
    return Chapter(kind, step, name, groups, choice, problem)


def _piles(files: Sequence[Path], *, replaces: bool) -> dict[str, _Pile]:
    """Group to its rows; the same attempt again takes the place of the first, or is another's."""
    piles: dict[str, _Pile] = {}
    seen: dict[tuple[str, int], int] = {}
    line = 0
    for path in files:
        for start, size, row in placed(path):
            brief = brief_of(row, Place(path, start, size))
            times = 0 if replaces else seen.get((brief.task, brief.member), 0)
            seen[brief.task, brief.member] = times + 1
            label = brief.task if not times else f"{brief.task} #{times + 1}"
            pile = piles.get(label)
            if pile is None:
                pile = piles[label] = _Pile(title_of(row), words_of(row))
            pile.rows[brief.member] = (line, brief)
            line += 1
    return piles


def _chosen(piles: Mapping[str, _Pile], step: int, chooser: Chooser) -> Choice | None:
    rows = [(n, b, label) for label, pile in piles.items() for n, b in pile.rows.values()]
    rows.sort(key=lambda row: row[0])
    return chooser([b for _, b, _ in rows], [label for _, _, label in rows], step)


def _group(label: str, pile: _Pile, choice: Choice | None, told: bool) -> Group:
    ranked = sorted(pile.rows.values(), key=lambda row: _rank(row[1]))
    members = tuple(brief for _, brief in ranked)
    rewards = [choice.rewards[n] if choice else b.reward for n, b in ranked]
    costs = [choice.costs[n] if choice else b.tokens for n, b in ranked]
    out = {at: _unusable(b) for at, b in enumerate(members) if not b.valid}
    if choice is not None:
        out = {at: choice.out[n] for at, (n, _) in enumerate(ranked) if n in choice.out}
    usable = [r for at, r in enumerate(rewards) if r is not None and at not in out]
    kept = [r for r, b in zip(rewards, members, strict=True) if b.kept and r is not None]
    plain = [b.reward for b in members if b.valid and b.reward is not None]
    note = choice.notes.get(label, "") if choice else ""
    terms = choice.terms if choice else Terms(m=len(kept) or None)
    marks = [b.kept for b in members]
    return Group(
        task=members[0].task,
        title=pile.title,
        words=pile.words,
        members=members,
        why=tuple(whys(rewards, costs, marks, out, terms, note)) if told else (),
        mean=sum(plain) / len(plain) if plain else None,
        spread_all=spread(usable),
        spread_kept=spread(kept),
        flat=is_flat(usable),
        note=note,
    )


def _rank(brief: Brief) -> tuple[bool, float, int]:
    return (not brief.valid, brief.reward if brief.reward is not None else 0.0, brief.member)


def _unusable(brief: Brief) -> str:
    if brief.status == "error":
        return "infrastructure broke, which is not the policy's doing"
    return "it has no reward"
