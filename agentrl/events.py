"""What happens in a run, as records; showing and tracking listen to them.

In    the training loop and evaluation emit
Out   frozen events; a Listener is any callable that takes one
Not   a way to change a run: listeners only look
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentrl.interval import Interval

Phase = Literal["rollout", "heldout"]


@dataclass(frozen=True, slots=True)
class Started:
    """A run begins, or goes on."""

    path: Path
    env: str
    model: str
    engine: str
    n: int
    m: int
    steps: int
    tasks_per_step: int
    first_step: int


@dataclass(frozen=True, slots=True)
class Played:
    """One more episode has ended."""

    phase: Phase
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The held-out tasks were attempted."""

    step: int
    accuracy: Interval | None
    tasks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step is done and recorded."""

    row: Mapping[str, Any]
    steps: int
    elapsed: float
    """Seconds of training since the run began or was resumed."""
    left: float
    """Seconds that the remaining steps will take, judged by those done."""


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a person should know now."""

    text: str


Event = Started | Played | Measured | Stepped | Warned
Listener = Callable[[Event], None]


def tell(listeners: Sequence[Listener], event: Event) -> None:
    """Give every listener an event."""
    for listener in listeners:
        listener(event)


def counting(emit: Listener, phase: Phase, of: int) -> Callable[[object], None]:
    """A callback for each episode that ends, which says how many have."""
    done = itertools.count(1)
    return lambda _: emit(Played(phase, next(done), of))
