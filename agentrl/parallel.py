"""Parallel: what the processes of a run tell each other.

In    the environment that a launcher such as torchrun sets
Out   SINGLE, or Replicated: every rank holds the whole model and its own share of the rows
Not   hooks in a model: between the calls here a rank does, and may fail at, what it likes
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Protocol, TypeVar

import torch
from torch import Tensor, distributed
from torch.nn import Parameter

from agentrl.errors import RunError, UsageError
from agentrl.oom import OutOfMemory, in_short, is_oom

T = TypeVar("T")

TIMEOUT = 1800.0
"""Seconds after which a rank that does not answer is given up: a whole rollout fits."""

BUCKET_BYTES = 64 << 20
"""Smaller gradients are added together in one message of this size."""

_NUMBERS = ("RANK", "WORLD_SIZE", "MASTER_PORT")
_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Parallel(Protocol):
    """How ranks agree. Every rank makes the same calls in the same order."""

    @property
    def rank(self) -> int:
        """0 plays, chooses and writes."""

    @property
    def world(self) -> int:
        """How many there are."""

    def all_ok(self, ok: bool) -> bool:
        """Whether it is so on every rank."""

    def least(self, value: int) -> int:
        """The smallest value of any rank."""

    def every(self, value: T) -> list[T]:
        """The small values of all, in the order of ranks."""

    def broadcast(self, value: T) -> T:
        """What rank 0 gave."""

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Set tensors to those of rank 0."""

    def reserve(self, parameters: Sequence[Parameter]) -> None:
        """Allocate all that `add` will need: alone, so that it may fail."""

    def add(self, parameters: Sequence[Parameter]) -> None:
        """Sum gradients over ranks; equal to the bit on all of them afterwards."""


class Single:
    """One process."""

    rank = 0
    world = 1

    def all_ok(self, ok: bool) -> bool:
        """Whether it is so."""
        return ok

    def least(self, value: int) -> int:
        """The value."""
        return value

    def every(self, value: T) -> list[T]:
        """The value alone."""
        return [value]

    def broadcast(self, value: T) -> T:
        """The value."""
        return value

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Nothing to do."""

    def reserve(self, parameters: Sequence[Parameter]) -> None:
        """Nothing to do."""

    def add(self, parameters: Sequence[Parameter]) -> None:
        """Nothing to do."""


SINGLE = Single()


class Replicated:
    """The ranks of torch's default process group.

    Flags and small values travel between CPUs, where a full accelerator is no obstacle.
    """

    def __init__(self, *, timeout: float = TIMEOUT, bucket: int = BUCKET_BYTES) -> None:
        self.rank = distributed.get_rank()
        self.world = distributed.get_world_size()
        self._timeout = timeout
        self._bucket_bytes = bucket
        self._bucket: Tensor | None = None
        self._lacking: Tensor | None = None

    def all_ok(self, ok: bool) -> bool:
        """Whether it is so on every rank."""
        return self.least(int(ok)) == 1

    def least(self, value: int) -> int:
        """The smallest value of any rank."""
        found = torch.tensor([value], dtype=torch.long)
        with self._reaching():
            distributed.all_reduce(found, distributed.ReduceOp.MIN)
        return int(found)

    def every(self, value: T) -> list[T]:
        """The small values of all, in the order of ranks."""
        found: list[T] = [value] * self.world
        with self._reaching():
            distributed.all_gather_object(found, value)
        return found

    def broadcast(self, value: T) -> T:
        """What rank 0 gave."""
        box = [value]
        with self._reaching():
            distributed.broadcast_object_list(box, src=0)
        return box[0]

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Set tensors to those of rank 0."""
        with self._reaching():
            for tensor in tensors:
                distributed.broadcast(tensor.detach(), src=0)

    def reserve(self, parameters: Sequence[Parameter]) -> None:
        """Allocate all that `add` will need: alone, so that it may fail.

        A gradient that this rank lacks becomes zeros.
        """
        lacking = [p.grad is None for p in parameters]
        for p in parameters:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
        self._lacking = torch.tensor(lacking, dtype=torch.uint8)
        if self._bucket is None and parameters:
            self._bucket = torch.empty(
                self._bucket_bytes, dtype=torch.uint8, device=parameters[0].device
            )

    @torch.no_grad()
    def add(self, parameters: Sequence[Parameter]) -> None:
        """Sum gradients over ranks; equal to the bit on all of them afterwards.

        One that every rank lacked is none again: an optimizer skips it, as in one process.
        """
        lacking, self._lacking = self._lacking, None
        if lacking is None:
            raise RuntimeError("gradients are added once, after reserve.")
        with self._reaching():
            distributed.all_reduce(lacking, distributed.ReduceOp.MIN)
            for part in _buckets([p.grad for p in parameters if p.grad is not None], self._fits):
                self._sum(part)
        for p, nowhere in zip(parameters, lacking.tolist(), strict=True):
            if nowhere:
                p.grad = None

    def _fits(self, numbers: int, dtype: torch.dtype) -> bool:
        return numbers * dtype.itemsize <= self._bucket_bytes

    def _sum(self, part: Sequence[Tensor]) -> None:
        flat = [gradient.view(-1) for gradient in part]
        if len(flat) == 1 or self._bucket is None:
            distributed.all_reduce(flat[0])
            return
        dtype, sizes = flat[0].dtype, [len(gradient) for gradient in flat]
        space = self._bucket[: sum(sizes) * dtype.itemsize].view(dtype)
        torch.cat(flat, out=space)
        distributed.all_reduce(space)
        for gradient, total in zip(flat, space.split(sizes), strict=True):
            gradient.copy_(total)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            reason = str(error).split("\n", 1)[0]
            raise RunError(
                f"rank {self.rank} of {self.world}: the other ranks did not answer ({reason}). "
                f"One has ended, or is over {self._timeout:.0f} s behind. "
                "Look for its own message; then resume the run."
            ) from error


def _buckets(
    gradients: Sequence[Tensor], fits: Callable[[int, torch.dtype], bool]
) -> Iterator[list[Tensor]]:
    """Neighbours of one type that fit together; one too large for that is alone."""
    part: list[Tensor] = []
    for gradient in gradients:
        numbers = sum(g.numel() for g in part) + gradient.numel()
        if part and (part[0].dtype != gradient.dtype or not fits(numbers, gradient.dtype)):
            yield part
            part = []
        part.append(gradient)
    if part:
        yield part


@dataclass(frozen=True, slots=True)
class _Failure:
    out_of_memory: bool
    words: str


def together(parallel: Parallel, work: Callable[[], T]) -> list[T]:
    """Do what may fail on some ranks only; what each found, or the same end for all.

    Nothing in `work` may wait for another rank: a rank whose work fails would not come.

    Raises:
        OutOfMemory: memory ran out on some rank.
        RunError: another rank failed; a rank's own failure is raised as it is.
    """
    found: T | _Failure
    cause: Exception | None = None
    try:
        found = work()
    except Exception as error:
        found = _Failure(is_oom(error), in_short(error))
        cause = None if found.out_of_memory else error
    # Outside the handler: what is raised there would hold on to the failed frames.
    every = parallel.every(found)
    if cause is not None:
        raise cause
    failed = [(rank, f) for rank, f in enumerate(every) if isinstance(f, _Failure)]
    for rank, failure in sorted(failed, key=lambda pair: pair[1].out_of_memory):
        if failure.out_of_memory:
            raise OutOfMemory(failure.words)
        raise RunError(f"rank {rank} failed, and this one ends with it. {failure.words}")
    return [f for f in every if not isinstance(f, _Failure)]


def launched() -> int:
    """How many processes a launcher has started, this one among them."""
    text = os.environ.get("WORLD_SIZE") or "1"
    if not text.isdecimal():
        raise UsageError(f"WORLD_SIZE {text!r}: not a number of processes. Unset it.")
    return int(text)


def single() -> Parallel:
    """The only process there is.

    Raises:
        UsageError: a launcher has started others.
    """
    if launched() > 1:
        raise UsageError(
            f"{launched()} processes: a single update runs in one, and the others would train "
            "on the same samples. Start it without a launcher, or replicate the update."
        )
    return SINGLE


def replicated(timeout: float = TIMEOUT) -> Parallel:
    """Join the processes that a launcher has started.

    Raises:
        UsageError: there was no launcher.
        RunError: they cannot reach each other.
    """
    missing = [name for name in _VARIABLES if name not in os.environ]
    if missing:
        raise UsageError(
            f"replicated: {', '.join(missing)} not set. A launcher starts one process for each "
            "accelerator and sets them. Start it with `torchrun --nproc-per-node N -m agentrl`."
        )
    odd = [name for name in _NUMBERS if not os.environ[name].isdecimal()]
    if odd:
        raise UsageError(f"{odd[0]} {os.environ[odd[0]]!r}: not a number. Start it with torchrun.")
    if distributed.is_initialized():
        return Replicated(timeout=timeout)
    accelerated = torch.cuda.is_available() and distributed.is_nccl_available()
    if accelerated:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if accelerated else "gloo", timeout=timedelta(seconds=timeout)
        )
    except RuntimeError as error:
        raise RunError(
            f"replicated: the processes cannot reach each other ({error}). "
            "Check MASTER_ADDR and MASTER_PORT, and that every node was started."
        ) from error
    atexit.register(_leave)
    ranks = Replicated(timeout=timeout)
    if accelerated:
        # Its buffers are allocated with the first message; then, and not in a full step.
        ranks.share([torch.zeros(1, device="cuda")])
    return ranks


def _leave() -> None:
    """A process that ends with its group's threads still at work is aborted."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


MODES: Mapping[str, Callable[[], Parallel]] = MappingProxyType(
    {"single": single, "replicated": replicated}
)
"""How a model is laid over processes. A mode that shards it would go here: its gradients
come summed from the backward pass, and its ranks need equal numbers of micro-batches."""
