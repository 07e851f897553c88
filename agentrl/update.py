"""Update: one optimizer step on the kept samples.

In    a causal language model, samples with advantages, K kept trajectories
Out   changed weights and an UpdateReport
Not   more than one process, nor a retry when memory runs out
"""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from torch import Tensor

from agentrl.errors import RunError, UsageError, suggestion
from agentrl.head import score, verify
from agentrl.layout import Rows, lay_out
from agentrl.loss import LOSSES, clipped_loss
from agentrl.master import Masters
from agentrl.plan import plan
from agentrl.sample import Sample

if TYPE_CHECKING:
    from transformers import PreTrainedModel

OPTIMIZER_FILE = "optimizer.pt"

_FRESH_ADAM = (
    "Going on would start Adam from nothing and change the run. Resume from a whole checkpoint."
)


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What one step did. A number is None where it is not finite or nothing gave it."""

    loss: float | None
    grad_norm: float | None
    """Length of the gradient before clipping."""
    tokens: int
    """Forwarded, without padding."""
    tokens_padded: int
    """Forwarded, with padding."""
    trained_tokens: int
    micro_batches: int
    k3: float | None
    """Mean over trained tokens whose behaviour log-prob is known."""
    max_gap: float | None
    """Largest difference between the learner's log-prob and the engine's."""
    clip_fraction: float | None
    entropy: float | None
    """Mean over trained tokens, nats."""
    peak_bytes: int
    """CUDA: peak allocation. CPU: by how much the step raised the process's peak memory,
    0 where an earlier peak was higher."""
    skipped: bool
    """The gradient was not finite, or nothing was trained; weights and optimizer are untouched."""


class Learner:
    """Owns the optimizer; changes a model in place."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        lr: float,
        weight_decay: float = 0.0,
        loss: str = "grpo",
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        grad_norm: float = 1.0,
        tokens_per_micro_batch: int = 8192,
        temperature: float = 1.0,
        checkpointing: bool = False,
    ) -> None:
        """Refuses a model that it can't train exactly, with the reason.

        Raises:
            UsageError: the model, or a setting, cannot be used.
        """
        if loss not in LOSSES:
            known = ", ".join(LOSSES)
            raise UsageError(f"--loss {loss}: no such loss. {suggestion(loss, LOSSES, known)}")
        on_cpu = model.device.type == "cpu"
        self._accelerator = Accelerator(cpu=on_cpu, mixed_precision="no")
        if self._accelerator.num_processes > 1:
            raise UsageError(
                f"{self._accelerator.num_processes} processes: the update runs in one, and the "
                "others would train on the same samples. Start it without a launcher."
            )
        self.model: PreTrainedModel = self._accelerator.prepare_model(model).eval()
        verify(self.model)
        if checkpointing:
            with _recomputing(self.model):
                verify(self.model)
        self._masters = Masters(self.model)
        self._optimizer = torch.optim.AdamW(
            self._masters.parameters, lr=lr, weight_decay=weight_decay, fused=True
        )
        self._token_weights = LOSSES[loss]
        self._clip = {"clip_low": clip_low, "clip_high": clip_high}
        self._grad_norm = grad_norm
        self._cap = tokens_per_micro_batch
        self._temperature = temperature
        self._checkpointing = checkpointing
        self.skipped_steps = 0

    def step(self, samples: Sequence[Sample], kept: int) -> UpdateReport:
        """Make one optimizer step with all samples of `kept` trajectories.

        Every token's weight is fixed before the first micro-batch, so that gradients do
        not depend on how the plan cuts the samples.
        """
        counts = [sum(s.loss_mask) for s in samples]
        per_token = self._token_weights(counts, [s.weight for s in samples], kept)
        weighted = [(s, w) for s, w, n in zip(samples, per_token, counts, strict=True) if n]
        lengths = [len(s.input_ids) for s, _ in weighted]
        (batches,) = plan(lengths, max([self._cap, *lengths]), packed=False)
        meter = _Meter(self.model.device)
        self._masters.forget_gradients()
        sums = []
        with self._masters.gathering(), self._activations():
            for batch in batches:
                rows = lay_out(*zip(*(weighted[row] for row in batch.rows), strict=True))
                sums.append(self._backward(rows.to(self.model.device)))
        norm = self._move() if sums else None
        self.skipped_steps += norm is None
        return _report(
            torch.stack(sums).double() if sums else torch.zeros(1, 6),
            grad_norm=norm,
            tokens=sum(lengths),
            tokens_padded=sum(batch.tokens for batch in batches),
            trained_tokens=sum(counts),
            micro_batches=len(batches),
            peak_bytes=meter.peak(),
        )

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state and, for half-precision weights, their exact copies."""
        return {"optimizer": self._optimizer.state_dict(), "exact": self._masters.copies}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take saved moments; learning rate and decay stay those of this learner.

        Raises:
            RunError: the state is not whole, or of another model.
        """
        if "optimizer" not in state:
            raise RunError(f"checkpoint: no optimizer state. {_FRESH_ADAM}")
        own, saved = self._optimizer.state_dict(), state["optimizer"]
        sizes = [len(group["params"]) for group in saved["param_groups"]]
        if sizes != [len(self._masters.parameters)] or len(state["exact"]) != len(
            self._masters.copies
        ):
            raise RunError(
                "checkpoint: its optimizer is that of another model or precision. "
                "Resume with the model and dtype that it was saved with."
            )
        self._optimizer.load_state_dict({**saved, "param_groups": own["param_groups"]})
        self._masters.take(state["exact"])

    def save(self, folder: Path) -> None:
        """Write the optimizer's state; the weights are the policy's to save."""
        torch.save(self.state_dict(), folder / OPTIMIZER_FILE)

    def load(self, folder: Path) -> None:
        """Take the state that `save` wrote.

        Raises:
            RunError: the file is not there or not of this model.
        """
        path = folder / OPTIMIZER_FILE
        if not path.is_file():
            raise RunError(f"{path}: missing. {_FRESH_ADAM}")
        self.load_state_dict(torch.load(path, map_location=self.model.device, weights_only=True))

    def _backward(self, rows: Rows) -> Tensor:
        found = score(self.model, rows.ids, rows.at, rows.labels, temperature=self._temperature)
        sums = clipped_loss(
            found.logprobs, rows.behaviour, rows.advantages, rows.weights, **self._clip
        )
        self._accelerator.backward(sums.loss)
        scalars = (sums.loss.detach(), found.entropy.sum(), *sums[1:])
        return torch.stack([value.float() for value in scalars])

    def _move(self) -> float | None:
        """Clip and step; the gradient's length, or None where it is not finite."""
        masters = self._masters.parameters
        norm = float(self._accelerator.clip_grad_norm_(masters, self._grad_norm))
        if math.isfinite(norm):
            self._optimizer.step()
            self._masters.publish()
        self._masters.forget_gradients()
        return norm if math.isfinite(norm) else None

    def _activations(self) -> AbstractContextManager[None]:
        return _recomputing(self.model) if self._checkpointing else nullcontext()


@contextmanager
def _recomputing(model: PreTrainedModel) -> Iterator[None]:
    """Recompute activations in backward, with dropout still off.

    Layers recompute only in training mode, so the mode of the layer itself changes, but
    not that of the modules inside, where dropout is.
    """
    model.gradient_checkpointing_enable({"use_reentrant": False})
    layers = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False)]
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
        model.gradient_checkpointing_disable()


class _Meter:
    """Peak memory of what happens between its making and `peak`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            self._before = _peak_of_process()

    def peak(self) -> int:
        """Bytes; see UpdateReport.peak_bytes."""
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        return _peak_of_process() - self._before


def _peak_of_process() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _report(sums: Tensor, *, grad_norm: float | None, **counts: int) -> UpdateReport:
    """Means from one row of sums per micro-batch."""
    loss, entropy, k3, known, clipped, _ = sums.sum(0).tolist()
    gap = sums[:, 5].max().item()
    trained = counts["trained_tokens"]
    return UpdateReport(
        loss=_finite(loss),
        grad_norm=grad_norm,
        k3=_finite(k3 / known) if known else None,
        max_gap=_finite(gap) if known else None,
        clip_fraction=clipped / trained if trained else None,
        entropy=_finite(entropy / trained) if trained else None,
        skipped=grad_norm is None,
        **counts,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
