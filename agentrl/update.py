"""Update: one optimizer step on the kept samples.

In    a causal language model, samples with advantages, K kept trajectories
Out   changed weights and an UpdateReport; the same, however rows are cut and shared out
Not   shorter rows: one above the cap is refused, and memory that runs out lowers the cap
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from agentrl.errors import RunError
from agentrl.figures import UpdateReport, added, figures
from agentrl.head import TokenScores, score, verify
from agentrl.layout import Rows, lay_out
from agentrl.loss import TokenSums, Trust, clipped_loss, loss_named
from agentrl.master import Masters
from agentrl.meter import Gauge, Meter, Observe, gauge_of
from agentrl.move import Move, allocate
from agentrl.oom import OutOfMemory, free, room
from agentrl.optimizers import build
from agentrl.packing import packable
from agentrl.parallel import SINGLE, Parallel, together
from agentrl.plan import MicroBatch, Shares, plan, widest
from agentrl.prefix import prompt_tokens, prompts_of, score_shared, sharable, share, sharing
from agentrl.recompute import MEMORY
from agentrl.rowwise import by_rows
from agentrl.sample import Sample, blank

if TYPE_CHECKING:
    from transformers import PreTrainedModel

OPTIMIZER_FILE = "optimizer.pt"

_FRESH_ADAM = (
    "Going on would start Adam from nothing and change the run. Resume from a whole checkpoint."
)
_ROOM = (
    "Set update.checkpointing, model.lora_rank or update.optimizer = adamw8bit, shorten rows "
    "with rollout.max_context, or take more memory."
)
_LONG = "Rows are never cut. Leave it out before choosing, or raise update.tokens_per_micro_batch."

LOWERED = 0.7
"""What is left of the widest micro-batch where memory ran out."""
REGAINED, CALM = 1.25, 10
"""By how much the cap rises after so many steps in which it did not, up to what was set."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What one step trains on, before it is cut."""

    rows: Sequence[tuple[Sample, float]]
    """Samples with something to train, each with the weight of its tokens."""
    lengths: tuple[int, ...]
    prompts: Sequence[tuple[int, int]] = ()
    """Which prompt a row begins with, and that one's tokens; none where they are not shared."""


class Learner:
    """Owns the optimizer; changes a model in place."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        lr: float,
        weight_decay: float = 0.0,
        optimizer: str = "adamw",
        loss: str = "grpo",
        objective: Callable[..., TokenSums] = clipped_loss,
        trust: Trust | None = None,
        grad_norm: float = 1.0,
        tokens_per_micro_batch: int = 8192,
        temperature: float = 1.0,
        checkpointing: str = "none",
        packing: bool = True,
        share_prompts: bool = True,
        parallel: Parallel = SINGLE,
        observe: Observe | None = None,
        gauge: Gauge | None = None,
    ) -> None:
        """Refuses a model that it can't train exactly, with the reason.

        Args:
            model: Changed in place; on every rank the same.
            lr: Learning rate.
            weight_decay: AdamW's decoupled decay.
            optimizer: A name of OPTIMIZERS.
            loss: A name of loss.LOSSES: how tokens are averaged.
            objective: What is summed over tokens.
            trust: How far tokens may be from the engine's policy; None takes Trust().
            grad_norm: Gradients are clipped to this length.
            tokens_per_micro_batch: The cap to start with.
            temperature: What the engine sampled at.
            checkpointing: A name of recompute.MEMORY: none, layers or offload.
            packing: Lay rows one after the other, where the model computes them as if alone.
            share_prompts: Compute a prompt once for its rows, where attention is plain.
            parallel: The other ranks; each is given all samples.
            observe: Told tokens and peak bytes of every micro-batch, where a device tells them.
            gauge: Reads peaks; None takes what the model's device has.

        Raises:
            UsageError: the model, or a setting, cannot be used.
            RunError: the optimizer's states do not fit, or another rank failed.
        """
        self.model = model.eval()
        self.cap = tokens_per_micro_batch
        self.skipped_steps = 0
        self.progress: Callable[[int, int], None] | None = None
        """Told after each micro-batch of a step how many are done, and of how many."""
        self._parallel = parallel
        self._checkpointing = checkpointing
        self._recomputing = partial(MEMORY[checkpointing], model)
        self._temperature = temperature
        self._token_weights = loss_named(loss)
        self._objective = partial(objective, **asdict(trust or Trust()))
        self._meter = Meter(gauge or gauge_of(model.device), observe)
        parallel.share([p for p in model.parameters() if p.requires_grad])
        together(parallel, self._verify)
        self._choose_layout(packing, share_prompts)
        self._masters = Masters(model)
        self._make(partial(build, optimizer, lr=lr, weight_decay=weight_decay))
        self._move = Move(self._masters, self._optimizer, grad_norm)

    def step(self, samples: Sequence[Sample], kept: int) -> UpdateReport:
        """Make one optimizer step with all samples of `kept` trajectories.

        Every token's weight is fixed before the first micro-batch, so that gradients do
        not depend on how the plan cuts the samples, nor on who computes which.

        Raises:
            RunError: a row is above the cap, memory does not do for the longest row alone,
                or another rank failed; nothing has moved, unless the message says so.
        """
        counts = [sum(s.loss_mask) for s in samples]
        per_token = self._token_weights(counts, [s.weight for s in samples], kept)
        rows = [(s, w) for s, w, n in zip(samples, per_token, counts, strict=True) if n]
        lengths = tuple(len(s.input_ids) for s, _ in rows)
        work = _Work(rows, lengths, prompts_of([s for s, _ in rows]) if self._shared else ())
        self._meter.begin()
        try:
            shares, found, retries = self._until_it_fits(work)
            norm, more = self._moved(shares, max(work.lengths, default=1))
            peak = max(self._parallel.every(self._meter.peak()))
        finally:
            self._masters.forget_gradients()
        self.skipped_steps += norm is None
        self._regain(retries + more)
        return figures(
            torch.tensor(found, dtype=torch.float64),
            grad_norm=norm,
            tokens=sum(work.lengths),
            tokens_padded=sum(batch.tokens for share in shares for batch in share),
            trained_tokens=sum(counts),
            micro_batches=len(shares[0]),
            peak_bytes=peak,
            oom_retries=retries + more,
            cap=self._cap,
            widest=widest(shares),
        )

    @property
    def cap(self) -> int:
        """Most tokens of a micro-batch; lower than was set after memory ran out."""
        return self._cap

    @cap.setter
    def cap(self, tokens: int) -> None:
        self._cap = self._ceiling = tokens
        self._calm = 0

    @property
    def exact(self) -> bool:
        """Whether the device tells the peak of a single micro-batch."""
        return self._meter.exact

    def rehearse(self, tokens: int, longest: int) -> bool:
        """Two micro-batches of so many tokens that teach nothing; whether there was room.

        The second has gradients of the first beside it, as all but the first of a step do.
        """
        each = [longest] * (tokens // longest) + [tokens % longest] * (tokens % longest > 1)
        rows = [(blank(length), 0.0) for length in each or [2]]
        work = _Work(rows, tuple(each))
        shares = ((MicroBatch(tuple(range(len(rows))), tokens),) * 2,) * self._parallel.world
        try:
            together(self._parallel, partial(self._accumulate, work, shares))
        except OutOfMemory:
            return False
        finally:
            self._masters.forget_gradients()
            free()
        return True

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
        saved, groups = state["optimizer"], self._optimizer.state_dict()["param_groups"]
        sizes = [len(group["params"]) for group in saved["param_groups"]]
        if sizes != [len(self._masters.parameters)] or len(state["exact"]) != len(
            self._masters.copies
        ):
            raise RunError(
                "checkpoint: its optimizer is that of another model or precision. "
                "Resume with the model and dtype that it was saved with."
            )
        self._optimizer.state.clear()  # two sets of moments might not fit
        self._optimizer.load_state_dict({**saved, "param_groups": groups})
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
        self.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))

    def _verify(self) -> None:
        verify(self.model)
        if self._checkpointing != "none":
            with self._recomputing():
                verify(self.model)

    def _choose_layout(self, packing: bool, share_prompts: bool) -> None:
        """What this model computes as if each row were alone, on every rank alike."""
        packs, shares = partial(packable, self.model), partial(sharable, self.model)
        self.padded_because = max(together(self._parallel, packs)) if packing else "not asked for."
        """Why rows are not packed; "" where they are."""
        self._packed = not self.padded_because
        apart = together(self._parallel, shares) if self._packed else ["padded."]
        self._shared = share_prompts and not max(apart)

    def _make(self, build: Callable[[Sequence[Parameter]], Optimizer]) -> None:
        """The optimizer, with all that outlives a step: no step needs more than the first."""
        masters = self._masters.parameters

        def made() -> None:
            self._optimizer = build(masters)
            allocate(self._optimizer)
            self._parallel.reserve(masters)

        try:
            together(self._parallel, made)
        except OutOfMemory as error:
            raise RunError(
                f"update: no room for the optimizer's states of {sum(p.numel() for p in masters):,}"
                f" trained numbers; {room(self.model.device)}. {error} {_ROOM}"
            ) from None
        finally:
            self._masters.forget_gradients()

    def _until_it_fits(self, work: _Work) -> tuple[Shares, list[list[float]], int]:
        """Whole gradients of all ranks; in narrower micro-batches where memory ran out."""
        retries, before = 0, 0
        while True:
            shares = self._planned(work)
            try:
                found = together(self._parallel, partial(self._accumulate, work, shares))
            except OutOfMemory as error:
                words = str(error)
            else:
                self._parallel.add(self._masters.parameters)
                return shares, found, retries
            self._masters.forget_gradients()
            free()
            width, longest = widest(shares), max(work.lengths)
            if width == before:
                raise RunError(
                    f"update: out of memory in a micro-batch of {width} tokens, the fewest that "
                    f"a row of {longest} allows (cap {self._cap}); {room(self.model.device)}. "
                    f"{words} {_ROOM}"
                )
            self._cap, before, retries = _lowered(width, longest), width, retries + 1

    def _regain(self, retries: int) -> None:
        """Memory that ran out once may be there again: another program had it, or long rows."""
        self._calm = 0 if retries else self._calm + 1
        if self._calm == CALM:
            self._cap, self._calm = min(self._ceiling, math.ceil(REGAINED * self._cap)), 0

    def _planned(self, work: _Work) -> Shares:
        """The plan that all ranks make alike, or fail at together."""
        self._cap = self._parallel.least(self._cap)

        def planned() -> Shares:
            ranks = self._parallel.world
            try:
                return plan(
                    work.lengths, self._cap, ranks=ranks, packed=self._packed, prompts=work.prompts
                )
            except ValueError as error:
                raise RunError(f"update: {error} {_LONG}") from None

        every = together(self._parallel, planned)
        if any(shares != every[0] for shares in every):
            raise RunError("update: ranks were given different samples. Broadcast what is kept.")
        return every[0]

    def _accumulate(self, work: _Work, shares: Shares) -> list[float]:
        """Add up this rank's gradients; the sums for the report."""
        self._masters.forget_gradients()
        sums = [torch.zeros(len(TokenSums._fields) + 1)]
        with ExitStack() as held:
            held.enter_context(self._masters.gathering())
            held.enter_context(self._recomputing())
            if self._packed:
                # Activations that are recomputed in backward need it there too.
                held.enter_context((sharing if self._shared else by_rows)(self.model))
            own = shares[self._parallel.rank]
            for done, batch in enumerate(own, 1):
                with self._meter.micro_batch(batch.tokens):
                    sums.append(self._backward([work.rows[row] for row in batch.rows]))
                if self.progress is not None:
                    self.progress(done, len(own))
        self._parallel.reserve(self._masters.parameters)
        return added(torch.stack([row.cpu() for row in sums]).double())

    def _backward(self, rows: Sequence[tuple[Sample, float]]) -> Tensor:
        """One micro-batch; nothing of it is referred to afterwards."""
        samples, weights = zip(*rows, strict=True) if rows else ((), ())
        laid, found = self._scored(samples, weights)
        sums = self._objective(found.logprobs, *laid.columns, owner=laid.owner)
        sums.loss.backward()
        scalars = (sums.loss.detach(), found.entropy.sum(), *sums[1:])
        return torch.stack([value.float() for value in scalars])

    def _scored(
        self, samples: Sequence[Sample], weights: Sequence[float]
    ) -> tuple[Rows, TokenScores]:
        laid = lay_out(samples, weights, packed=self._packed)
        if self._shared:
            prompts = [prompt_tokens(s) for s in samples] or [0]
            shared = share(laid, prompts).to(self.model.device)
            return shared.rows, score_shared(self.model, shared, temperature=self._temperature)
        laid = laid.to(self.model.device)
        found = score(
            self.model,
            laid.ids,
            laid.at,
            laid.labels,
            lengths=laid.lengths,
            temperature=self._temperature,
        )
        return laid, found

    def _moved(self, shares: Shares, longest: int) -> tuple[float | None, int]:
        """Move the weights; the gradient's length, None where it is not finite, and retries.

        Gradients are whole here, so where memory runs out a rank repeats its own move and
        no other: those that have moved must not move again.
        """
        if not shares[0]:
            return None, 0
        try:
            norms = together(self._parallel, self._move.norm)
            retries = sum(again for _, again in norms)
            if not all(math.isfinite(norm) for norm, _ in norms):
                return None, retries
            norm = norms[0][0]
            retries += sum(together(self._parallel, partial(self._move.apply, norm)))
        except OutOfMemory as error:
            raise RunError(
                f"update: out of memory in the optimizer, with no micro-batch left; "
                f"{room(self.model.device)}. {error} {_ROOM}"
            ) from None
        if retries:
            self._cap = _lowered(widest(shares), longest)
        return norm, retries


def _lowered(width: int, longest: int) -> int:
    """The next cap; from what did not fit, as a cap above that would change nothing."""
    return max(longest, int(LOWERED * width))
