"""A run's figures → TensorBoard, trackio, Weights & Biases; whichever fails is done without.

In    names of sinks, the settings of a run; its events
Out   every number of each step's row, given to each sink under the same name
Not   an upload, unless the sink's own environment variable asks for one
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from agentrl.config import TrainConfig
from agentrl.errors import AgentRLError, RunError, blame
from agentrl.events import Event, Listener, Measured, Started, Stepped, Warned, tell
from agentrl.log import logged
from agentrl.optional import need

PROJECT = "agentrl"


class Sink(Protocol):
    """Somewhere else that figures go to."""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Take the figures of a step."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


Open = Callable[[Started, Mapping[str, Any]], Sink]
"""A sink for a run that begins or goes on, told its settings."""


@dataclass(slots=True)
class TensorBoard:
    """Event files in the run's folder."""

    writer: Any

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """One scalar a figure."""
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


@dataclass(slots=True)
class Tracked:
    """A run of wandb, or of trackio, which has the same calls."""

    run: Any

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """All figures of a step at once."""
        self.run.log(dict(figures), step=step)

    def close(self) -> None:
        """End the run there."""
        self.run.finish()


def tensorboard(begun: Started, settings: Mapping[str, Any]) -> Sink:
    """Event files under `tensorboard/`; what a run that goes on writes anew is hidden."""
    kind = need("torch.utils.tensorboard", "tensorboard", "record.sinks tensorboard").SummaryWriter
    again = begun.first_step if begun.first_step > 1 else None
    return TensorBoard(kind(str(begun.path / "tensorboard"), purge_step=again))


def wandb(begun: Started, settings: Mapping[str, Any]) -> Sink:
    """Files under `wandb/`, which `wandb sync` can upload; WANDB_MODE=online does so at once."""
    module = need("wandb", "wandb", "record.sinks wandb")
    run = module.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=begun.path.name,
        id=identity(begun.path),
        resume="allow",
        dir=str(begun.path),
        config=dict(settings),
        mode=os.environ.get("WANDB_MODE", "offline"),
    )
    return Tracked(run)


def trackio(begun: Started, settings: Mapping[str, Any]) -> Sink:
    """The folder of trackio itself; TRACKIO_SPACE_ID sends it to a Space."""
    module = need("trackio", "trackio", "record.sinks trackio")
    run = module.init(
        project=PROJECT,
        name=f"{begun.path.name}-{identity(begun.path)[:6]}",
        resume="allow",
        config=dict(settings),
    )
    return Tracked(run)


SINKS: Mapping[str, Open] = MappingProxyType(
    {"tensorboard": tensorboard, "trackio": trackio, "wandb": wandb}
)


@dataclass(slots=True)
class Sinks:
    """Gives each step to each sink, and leaves out for good one that raises."""

    openers: Mapping[str, Open]
    settings: Mapping[str, Any]
    warn: Listener
    open: dict[str, Sink] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """Open with the run; then pass on its figures."""
        if isinstance(event, Started):
            for name, opener in self.openers.items():
                self._try(name, partial(self._open, name, opener, event))
        elif isinstance(event, Stepped):
            self._log(numbers(event.row), int(event.row["step"]))
        elif isinstance(event, Measured) and event.accuracy is not None and not event.step:
            # Later ones are in the rows; what was measured before the first step is in none.
            self._log({"heldout": event.accuracy.mean}, event.step)

    def close(self) -> None:
        """Close all."""
        for name, sink in list(self.open.items()):
            self._try(name, sink.close)

    def _open(self, name: str, opener: Open, begun: Started) -> None:
        self.open[name] = opener(begun, self.settings)

    def _log(self, figures: Mapping[str, float], step: int) -> None:
        for name, sink in list(self.open.items()):
            self._try(name, partial(sink.log, figures, step))

    def _try(self, name: str, work: Callable[[], None]) -> None:
        try:
            with blame(RunError, f"record.sinks {name}"):
                work()
        except AgentRLError as error:
            self.open.pop(name, None)
            self.warn(Warned(f"{error} The run goes on without it; metrics.jsonl has all figures."))


@contextmanager
def attended(
    listeners: Sequence[Listener], logs: Path, command: Sequence[str], config: TrainConfig
) -> Iterator[Sequence[Listener]]:
    """Listeners of a run, with the log of this attempt and the sinks, which end with it."""
    with logged(logs, command) as log:
        told: Sequence[Listener] = (*listeners, log)
        openers = {name: SINKS[name] for name in config.record.sink_names}
        found = Sinks(openers, shown(config.model_dump()), partial(tell, told))
        try:
            yield (*told, found)
        finally:
            found.close()


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """What of a row is a number."""
    return {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, int | float) and name != "step"
    }


def shown(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for other eyes: options of an environment may hold a key, so they stay here."""
    return {
        f"{section}.{key}": value
        for section, values in settings.items()
        for key, value in values.items()
        if not isinstance(value, Mapping)
    }


def identity(folder: Path) -> str:
    """The same for a run that goes on, another one for any other."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
