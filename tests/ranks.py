"""Two processes in one gloo group, which do what they are asked; and what they are asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import Parameter

from agentrl.oom import OutOfMemory
from agentrl.parallel import Replicated, together
from agentrl.sample import Sample
from agentrl.update import Learner, UpdateReport
from tests.models import llama

Answer = tuple[str, Any]
"""("", result), or (name of the error, its text)."""


class Ranks:
    """They stay for many questions, because importing torch takes longer than any of them."""

    def __init__(self, folder: Path, *, timeout: float = 60.0) -> None:
        spawn = get_context("spawn")
        pipes = [spawn.Pipe() for _ in range(2)]
        self._pipes = [ours for ours, _ in pipes]
        self.processes = [
            spawn.Process(
                target=_serve, args=(theirs, rank, str(folder / "store"), timeout), daemon=True
            )
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self.processes:
            process.start()

    def ask(self, job: Callable[..., Any], *options: Any) -> list[Answer]:
        """Each rank's answer to the same question."""
        for pipe in self._pipes:
            pipe.send((job, options))
        return [self.answer(rank) for rank in range(2)]

    def answer(self, rank: int, seconds: float = 120.0) -> Answer:
        """What one rank says, if it says anything in time."""
        assert self._pipes[rank].poll(seconds), f"rank {rank} hangs"
        found: Answer = self._pipes[rank].recv()
        return found

    def close(self) -> None:
        """Send them home."""
        for pipe, process in zip(self._pipes, self.processes, strict=True):
            if process.is_alive():
                pipe.send(None)
            process.join(10)
            process.kill()


def results(answers: Sequence[Answer]) -> list[Any]:
    """What they found, where none failed."""
    assert [error for error, _ in answers] == ["", ""], answers
    return [found for _, found in answers]


def _serve(pipe: Connection, rank: int, store: str, timeout: float) -> None:
    torch.set_num_threads(1)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=timeout),
    )
    parallel = Replicated(timeout=timeout, bucket=1 << 12)
    while (question := pipe.recv()) is not None:
        job, options = question
        try:
            pipe.send(("", job(parallel, *options)))
        except Exception as error:
            pipe.send((type(error).__name__, str(error)))


def small_talk(parallel: Replicated) -> tuple[Any, ...]:
    rank = parallel.rank
    return (
        parallel.all_ok(True),
        parallel.all_ok(rank == 0),
        parallel.least(10 - rank),
        parallel.every({"rank": rank}),
        parallel.broadcast(["from", rank]),
    )


def add_up(parallel: Replicated, wanting: Sequence[Sequence[bool]]) -> list[Tensor | None]:
    """Gradients of sizes below, at and above a bucket; `wanting[rank]` says which are there."""
    draw = torch.Generator().manual_seed(parallel.rank)
    sizes = [(3,), (700,), (40, 30), (1024,), (5, 7)]
    parameters = [Parameter(torch.zeros(size)) for size in sizes]
    parameters.append(Parameter(torch.zeros(9, dtype=torch.float64)))
    for parameter, there in zip(parameters, wanting[parallel.rank], strict=True):
        values = torch.rand(parameter.shape, generator=draw).to(parameter.dtype)
        parameter.grad = values if there else None
    parallel.reserve(parameters)
    parallel.add(parameters)
    return [p.grad for p in parameters]


def fail_on(parallel: Replicated, rank: int, error: Exception) -> list[int]:
    def work() -> int:
        if parallel.rank == rank:
            raise error
        return parallel.rank

    return together(parallel, work)


def is_light(parallel: Replicated) -> bool:
    """Whether what is raised for an out-of-memory holds no frame of the work that failed."""

    def work() -> None:
        heavy = torch.zeros(9)
        raise torch.OutOfMemoryError(str(len(heavy)))

    try:
        together(parallel, work)
    except OutOfMemory as error:
        frame = error.__traceback__
        names = []
        while frame is not None:
            names.append(frame.tb_frame.f_code.co_name)
            frame = frame.tb_next
        return "work" not in names and error.__context__ is None
    return False


def end_alone(parallel: Replicated) -> int:
    if parallel.rank == 1:
        os._exit(3)
    return parallel.least(1)


def _weights(learner: Learner) -> Tensor:
    return torch.cat([p.detach().flatten() for p in learner.model.parameters()]).clone()


class Once:
    """Raises at one of its calls, on one rank."""

    def __init__(self, parallel: Replicated, rank: int, call: int = 0) -> None:
        self._calls = call if parallel.rank == rank else -1

    def __call__(self, *_: Any, **__: Any) -> None:
        self._calls -= 1
        if self._calls == -1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def train(
    parallel: Replicated,
    samples: Sequence[Sample],
    *,
    steps: int = 1,
    seeds: Sequence[int] = (0, 0),
    oom: str = "",
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Steps of a learner; `oom` is where rank 1 runs out of memory, once."""
    options = {"lr": 1e-3, "grad_norm": 1e9} | (options or {})
    learner = Learner(llama(seeds[parallel.rank]), parallel=parallel, **options)
    once, model = Once(parallel, 1), learner.model.model
    if oom == "forward":
        model.layers[1].register_forward_pre_hook(Once(parallel, 1, 1))
    elif oom == "backward":
        model.layers[0].mlp.up_proj.weight.register_hook(once)
    elif oom == "optimizer":
        learner._optimizer.register_step_pre_hook(once)
    gradients: list[Tensor] = []
    learner._optimizer.register_step_pre_hook(
        lambda o, *_: gradients.append(
            torch.cat([p.grad.flatten() for p in o.param_groups[0]["params"]]).clone()
        )
    )
    reports: list[UpdateReport] = [learner.step(samples, len(samples)) for _ in range(steps)]
    state = learner.state_dict()["optimizer"]["state"]
    return {
        "reports": reports,
        "gradients": gradients,
        "weights": _weights(learner),
        "moments": torch.cat([v.flatten() for s in state.values() for v in s.values()]),
        "cap": learner.cap,
        "skipped": learner.skipped_steps,
    }


def train_options(
    parallel: Replicated, samples: Sequence[Sample], options: dict[str, Any]
) -> dict[str, Any]:
    """As `train`, all options in one."""
    return train(parallel, samples, **options)


def train_as_told(
    parallel: Replicated, samples: Sequence[Sequence[Sample]], caps: Sequence[int]
) -> UpdateReport:
    """Each rank its own samples and cap."""
    mine = samples[parallel.rank]
    cap = caps[parallel.rank]
    learner = Learner(llama(), parallel=parallel, lr=1e-3, tokens_per_micro_batch=cap)
    return learner.step(mine, len(mine))


def train_without_room(parallel: Replicated, samples: Sequence[Sample]) -> UpdateReport:
    """Rank 1 never has room for a row of over 20 tokens."""

    def refuse(_: Any, __: Any, inputs: dict[str, Tensor]) -> None:
        if parallel.rank == 1 and inputs["input_ids"].numel() > 20:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    learner = Learner(llama(), parallel=parallel, lr=1e-3)
    learner.model.model.register_forward_pre_hook(refuse, with_kwargs=True)
    return learner.step(samples, len(samples))
