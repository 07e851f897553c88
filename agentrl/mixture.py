"""What a run plays: one environment, or several by weight (`a*2,b*1`).

In    the text behind `--env`, the options behind `--env.KEY`
Out   Mixture: tasks of all its parts in one source, and the right environment for each
Not   a schedule: shares are those of the weights over an epoch, and steps draw from them

The source of a mixture counts through its parts again and again, each as often as its weight
says. It ends when every part was seen whole, so smaller ones come several times in an epoch.
"""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from typing import Any

from agentrl import registry
from agentrl.env import ToolEnv
from agentrl.errors import UsageError, suggestion
from agentrl.supply import supply
from agentrl.task import LABELS, Task, TaskSource

FROM = LABELS["env"]
"""Key of a task's meta: the part of a mixture that it belongs to."""
FINEST = 10_000
"""Sum of the weights as whole numbers; finer shares need no source that long."""


@dataclass(frozen=True, slots=True)
class Part:
    """One environment of a mixture."""

    name: str
    """As it was written."""
    weight: int
    make: Callable[[], ToolEnv]
    """A fresh instance."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Environments with weights; one alone is a mixture too."""

    name: str
    """As it was written."""
    parts: tuple[Part, ...]

    @property
    def mixed(self) -> bool:
        """Whether there is more than one part."""
        return len(self.parts) > 1

    def make(self, task: Task) -> ToolEnv:
        """A fresh instance of the environment that a task belongs to."""
        return self.part_of(task).make()

    def part_of(self, task: Task) -> Part:
        """The part that a task belongs to."""
        if not self.mixed:
            return self.parts[0]
        name = (task.meta or {}).get(FROM)
        return next(part for part in self.parts if part.name == name)

    def source(self, split: str, held_out: Sequence[Task] = ()) -> TaskSource:
        """Tasks of a split, of all parts.

        Raises:
            UsageError: they cannot be had, are no tasks, or are held out.
        """
        sources = [supply(p.make(), split, p.name, held_out) for p in self.parts]
        if not self.mixed:
            return sources[0]
        for part, source in zip(self.parts, sources, strict=True):
            if not len(source):
                raise UsageError(
                    f"--env {part.name}: it has no tasks of the split {split}. Leave it out."
                )
        return interleaved(self.parts, sources)


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Tasks of several sources, in turns by weight; each task notes where it is from."""

    parts: tuple[Part, ...]
    sources: tuple[TaskSource, ...]
    sizes: tuple[int, ...]
    ends: tuple[int, ...]
    """Of each part's slots in a round."""
    rounds: int

    def __len__(self) -> int:
        """Until the part that takes longest was seen whole."""
        return self.rounds * self.ends[-1]

    def __getitem__(self, index: int) -> Task:
        """The task at a position."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        turn, slot = divmod(index % len(self), self.ends[-1])
        which = bisect_right(self.ends, slot)
        part = self.parts[which]
        position = turn * part.weight + slot - (self.ends[which] - part.weight)
        task = self.sources[which][position % self.sizes[which]]
        return replace(task, meta={**(task.meta or {}), FROM: part.name})


def interleaved(parts: Sequence[Part], sources: Sequence[TaskSource]) -> Interleaved:
    """The source of a mixture; none of its parts is empty."""
    sizes = tuple(map(len, sources))
    rounds = max(-(-size // part.weight) for size, part in zip(sizes, parts, strict=True))
    ends = tuple(accumulate(part.weight for part in parts))
    return Interleaved(tuple(parts), tuple(sources), sizes, ends, rounds)


def firsts(mixture: Mixture, source: Sequence[Task] | TaskSource) -> list[Task]:
    """The first task of each part, as far as there is one among the first few."""
    most = min(len(source), sum(part.weight for part in mixture.parts))
    found: dict[str, Task] = {}
    for index in range(most):
        task = source[index]
        found.setdefault(mixture.part_of(task).name, task)
    return list(found.values())


def mixture_of(text: str, options: Mapping[str, Any]) -> Mixture:
    """The environments that a text names, each made once to see that it can be.

    An option goes to every part that has one of that name.

    Raises:
        UsageError: the text, a name or an option is wrong.
    """
    weights = weights_of(text)
    parts = []
    for name, kind in kinds_of(text, options).items():
        taken = _taken(kind, options)
        registry.make(name, **taken).close()
        parts.append(Part(name, weights[name], _maker(kind, taken)))
    return Mixture(text, tuple(parts))


def kinds_of(text: str, options: Mapping[str, Any]) -> dict[str, type[ToolEnv]]:
    """The classes that a text names, none of them made.

    Raises:
        UsageError: the text or a name is wrong, or an option is of no part.
    """
    kinds = {name: registry.resolve(name) for name in weights_of(text)}
    if len(kinds) == 1:
        (only,) = kinds
        registry.check_options(only, options)
    _refuse_unknown(text, kinds, options)
    return kinds


def _maker(kind: type[ToolEnv], options: Mapping[str, Any]) -> Callable[[], ToolEnv]:
    return lambda: kind(**options)


def weights_of(text: str) -> dict[str, int]:
    """Names and their weights as the smallest whole numbers."""
    found: dict[str, Fraction] = {}
    for piece in text.split(","):
        name, star, written = piece.strip().rpartition("*")
        name, weight = (name.strip(), _weight(text, written)) if star else (piece.strip(), 1)
        if not name:
            raise UsageError(f"--env {text!r}: a name is missing. Write it as a*2,b*1.")
        if name in found:
            raise UsageError(f"--env {text}: {name} is there twice. Add its weights up.")
        found[name] = Fraction(weight)
    scale = lcm(*(weight.denominator for weight in found.values()))
    whole = {name: int(weight * scale) for name, weight in found.items()}
    least = gcd(*whole.values())
    if sum(whole.values()) // least > FINEST:
        raise UsageError(f"--env {text}: weights that differ so much or so little. Round them.")
    return {name: weight // least for name, weight in whole.items()}


def _weight(text: str, written: str) -> Fraction:
    try:
        weight = Fraction(written.strip())
    except (ValueError, ZeroDivisionError):
        weight = Fraction(0)
    if weight <= 0:
        raise UsageError(
            f"--env {text}: {written.strip()!r} is no weight. Write one above 0, as in a*2,b*1."
        )
    return weight


def _taken(kind: type[ToolEnv], options: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(kind).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(options)
    return {key: value for key, value in options.items() if key in parameters}


def _refuse_unknown(
    text: str, kinds: Mapping[str, type[ToolEnv]], options: Mapping[str, Any]
) -> None:
    for key in options:
        if not any(key in _taken(kind, options) for kind in kinds.values()):
            signatures = map(inspect.signature, kinds.values())
            known = sorted({name for signature in signatures for name in signature.parameters})
            hint = suggestion(key, known, f"There are {', '.join(known) or 'none'}.")
            raise UsageError(f"--env.{key}: no part of {text} has such an option. {hint}")
