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
from agentrl.trajectory import Trajectory, tool_calls, tool_failures

Phase = Literal["rollout", "heldout", "eval"]
"""Episodes to learn from; to measure by while training; of an evaluation."""
Part = Literal["rollout", "select", "update", "sync", "eval"]
"""What a step spends its time on; `eval` is the held-out tasks."""


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
    rule: str = "max_variance"
    memory: int | None = None
    """Bytes that an update may take; None where nobody said."""
    past: Sequence[Mapping[str, Any]] = ()
    """Rows of the steps before, where a run goes on."""


@dataclass(frozen=True, slots=True)
class Evaluating:
    """An evaluation begins, or goes on."""

    env: str
    model: str
    split: str
    tasks: int
    k: int
    path: Path | None
    """Folder, where one is written."""
    known: int = 0
    """Episodes that were played before."""


@dataclass(frozen=True, slots=True)
class Phased:
    """A part of a step begins or ends; parts may overlap."""

    part: Part
    going: bool


@dataclass(frozen=True, slots=True)
class Episode:
    """What one episode came to, in numbers."""

    turns: int
    tool_calls: int
    tool_failures: int
    tokens: int
    """Sampled."""
    correct: bool | None
    """None where it cannot be scored."""


@dataclass(frozen=True, slots=True)
class Played:
    """One more episode has ended."""

    phase: Phase
    done: int
    of: int
    episode: Episode | None = None
    """The one that ended; None where several did."""
    step: int = 0


@dataclass(frozen=True, slots=True)
class Picked:
    """A step's trajectories to train on were chosen."""

    step: int
    kept: int
    of: int
    groups: int
    flat: int
    spread_all: float | None
    spread_kept: float | None
    tokens: int
    """Of the kept ones, as they go forward."""


@dataclass(frozen=True, slots=True)
class Learned:
    """One more micro-batch of an update is done; after memory ran out they are counted anew."""

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
class Evaluated:
    """An evaluation is done."""

    env: str
    accuracy: Interval | None
    episodes: int
    errors: int
    """Episodes that cannot be scored."""


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


@dataclass(frozen=True, slots=True)
class Stopping:
    """Somebody asked the run to stop: it does so after this step."""


Event = (
    Started
    | Evaluating
    | Phased
    | Played
    | Picked
    | Learned
    | Measured
    | Evaluated
    | Stepped
    | Warned
    | Stopping
)
Listener = Callable[[Event], None]


def tell(listeners: Sequence[Listener], event: Event) -> None:
    """Give every listener an event."""
    for listener in listeners:
        listener(event)


def episode_of(played: Trajectory) -> Episode:
    """An episode in numbers."""
    return Episode(
        turns=len(played.turns),
        tool_calls=tool_calls(played.turns),
        tool_failures=tool_failures(played.turns),
        tokens=played.num_trained_tokens,
        correct=bool(played.correct) if played.valid else None,
    )


def counting(
    emit: Listener, phase: Phase, of: int, *, step: int = 0, done: int = 0
) -> Callable[[Trajectory], None]:
    """A callback for each episode that ends, which says how many have."""
    count = itertools.count(done + 1)
    return lambda played: emit(Played(phase, next(count), of, episode_of(played), step))
