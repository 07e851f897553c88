"""Forecast: the peak memory of a run's updates, before each, and the cap that follows.

In    settings, a model and its device; later what micro-batches really took
Out   the most tokens of a micro-batch; predicted bytes; a part of every checkpoint
Not   a limit on a CPU unless one is set: there a process may take what the machine has
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from agentrl.config import UpdateSection
from agentrl.errors import RunError, UsageError
from agentrl.head import CHUNK_BYTES
from agentrl.memory import Calibration, Regime, footprint, most_tokens, shape_of
from agentrl.memory.calibration import FIRST
from agentrl.memory.footprint import need
from agentrl.memory.ladder import ladder
from agentrl.memory.shape import Shape
from agentrl.memory.size import in_words, parse_size
from agentrl.sections import ModelSection

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILE = "forecast.json"

WIDEST = {"cpu": 8192, "cuda": 65536}
"""A wider micro-batch is no faster on such a device; one that a single row needs is made."""

PROBES = 4
"""Rehearsals at the start, each at most four times as wide as the one before."""


class Rehearses(Protocol):
    """A learner that can try a micro-batch without learning from it."""

    cap: int

    @property
    def exact(self) -> bool:
        """Whether the device tells the peak of one micro-batch."""

    def rehearse(self, tokens: int, longest: int) -> bool:
        """Whether there was room."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the settings and the device allow."""

    memory: int | None
    """Bytes that the update may take; None where nobody said."""
    wanted: int | None
    """Tokens of a micro-batch, if the settings name them."""
    widest: int


@dataclass(slots=True)
class Forecast:
    """Starts from the model's sizes; each observed peak corrects it."""

    limits: Limits
    calibration: Calibration | None = None
    """None for a model whose kind the memory model does not know."""
    static: Callable[[int], int] | None = None
    """The predicted peak of so many tokens, without any observation."""
    most: int = 0
    """The most tokens that the sizes alone allow."""

    def observe(self, tokens: int, peak: int) -> None:
        """Learn from one whole micro-batch."""
        if self.calibration is not None:
            self.calibration = self.calibration.observe(tokens, peak)

    def peak(self, tokens: int) -> int | None:
        """Bytes at the peak of such a micro-batch; None where nothing can be said."""
        if self.calibration is not None and self.calibration.seen:
            return self.calibration.peak(tokens)
        return None if self.static is None else self.static(tokens)

    @property
    def cap(self) -> int:
        """The most tokens of a micro-batch, from all that is known now."""
        limits, found = self.limits, self.calibration
        if limits.wanted is not None:
            return limits.wanted
        if limits.memory is None or found is None:
            return limits.widest
        most = found.most_tokens(limits.memory) if found.seen else self.most
        return min(limits.widest, most)

    def save(self, folder: Path) -> None:
        """Write what was observed."""
        known = None if self.calibration is None else self.calibration.as_json()
        (folder / FILE).write_text(json.dumps(known), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Take what was observed, if it was on such a device and in such a way."""
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if found is not None and self.calibration is not None:
            known = Calibration.from_json(found, self.calibration.signature)
            self.calibration = known or self.calibration


def forecast_of(
    model: PreTrainedModel,
    section: ModelSection,
    update: UpdateSection,
    *,
    engine_share: float = 0.0,
    longest: int,
) -> Forecast:
    """What the settings will take on the model's device.

    Args:
        model: Loaded; only its config, dtype and device are looked at.
        section: How it was loaded.
        update: How it is trained.
        engine_share: Share of the device's memory that an engine takes beside.
        longest: Tokens that a trajectory may have.

    Raises:
        UsageError: nothing fits, or not what was asked for; with what to change.
    """
    device, wanted = model.device, update.tokens_per_micro_batch
    memory = _memory(update, device, engine_share)
    limits = Limits(
        memory=memory,
        wanted=None if wanted == "auto" else wanted,
        widest=max(longest, WIDEST.get(device.type, WIDEST["cpu"])),
    )
    try:
        shape = shape_of(model.config.get_text_config().to_dict())
    except UsageError:
        return Forecast(limits)
    regime = regime_of(model, section, update)
    most = limits.widest if memory is None else most_tokens(shape, regime, memory)
    if memory is not None and most < (limits.wanted or 1):
        tokens = limits.wanted or min(longest, limits.widest)
        raise UsageError(_too_large(shape, regime, memory, tokens))
    return Forecast(
        limits=limits,
        calibration=Calibration.predicted(shape, regime, *_device(device)),
        static=lambda tokens: footprint(shape, regime, tokens).total,
        most=most,
    )


def regime_of(model: PreTrainedModel, section: ModelSection, update: UpdateSection) -> Regime:
    """The settings, in the words of the memory model."""
    return Regime(
        mode="qlora" if section.base_bits else "lora" if section.lora_rank else "full",
        dtype="float32" if model.dtype == torch.float32 else "bfloat16",
        optimizer=update.optimizer,
        checkpointing=update.checkpointing,
        lora_rank=section.lora_rank or 1,
        head_bytes=CHUNK_BYTES.get(model.device.type, CHUNK_BYTES["cpu"]),
    )


def probe(learner: Rehearses, forecast: Forecast, longest: int) -> None:
    """Rehearse micro-batches, each wider, until the cap is known; sets the learner's.

    Args:
        learner: With its optimizer's states in place.
        forecast: Observes what it does.
        longest: Tokens that a row may have.

    Raises:
        RunError: not even the narrowest fits, or not what was asked for.
    """
    limits = forecast.limits
    if not learner.exact or limits.memory is None or forecast.calibration is None:
        return
    first = min(forecast.most, limits.widest) // FIRST
    target = forecast.cap if forecast.calibration.seen else first
    for _ in range(PROBES):
        fits = learner.rehearse(max(2, target), longest)
        if fits and target >= forecast.cap:
            break
        target = forecast.cap if fits else target // 4
    found = forecast.calibration
    fewest = found.seen[0][0] if found.seen else 0
    if not fewest or need(found.peak(limits.wanted or fewest)) > limits.memory:
        raise RunError(
            f"update: rehearsals found no room for {limits.wanted or 'any'} tokens in "
            f"{in_words(limits.memory)}. `agentrl plan` says what fits: set "
            "update.tokens_per_micro_batch, update.checkpointing or model.lora_rank."
        )
    learner.cap = forecast.cap


def _memory(update: UpdateSection, device: torch.device, engine_share: float) -> int | None:
    """Bytes for states and activations together."""
    if update.memory:
        return parse_size(update.memory)
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_allocated(device) - engine_share * total)


def _device(device: torch.device) -> tuple[str, ...]:
    if device.type != "cuda":
        return (device.type, torch.__version__)
    return (torch.cuda.get_device_name(device), torch.__version__)


def _too_large(shape: Shape, regime: Regime, memory: int, tokens: int) -> str:
    """What would have to change, in the names of settings."""
    wanted = need(footprint(shape, regime, tokens).total)
    rungs = [rung.change for rung in ladder(shape, regime, memory, tokens)[:3]]
    advice = f" What helps: {'; '.join(rungs)}." if rungs else ""
    return (
        f"--memory: an update of {tokens} tokens at a time is predicted to take "
        f"{in_words(wanted)}, and there are {in_words(memory)}. "
        f"Lower --update.tokens_per_micro_batch, or see `agentrl plan`.{advice}"
    )
