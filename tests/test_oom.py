"""Out of memory is an event: the step is done again, and comes out the same."""

from __future__ import annotations

import statistics
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from agentrl.errors import RunError
from agentrl.oom import OutOfMemory, free, in_short, is_oom
from agentrl.sample import Sample
from agentrl.update import CALM, Learner
from tests.models import llama
from tests.rows import SAMPLES, sample

ROOT = Path(__file__).parent.parent
TOKENS = sum(len(s.input_ids) for s in SAMPLES)
CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB."


@pytest.mark.parametrize(
    ("error", "means_it"),
    [
        (torch.OutOfMemoryError(CUDA), True),
        (MemoryError(), True),
        (OutOfMemory("rank 1"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: ..."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
        (RunError("rank 1 failed"), False),
    ],
)
def test_what_means_out_of_memory(error: Exception, means_it: bool) -> None:
    assert is_oom(error) is means_it


def test_a_message_is_short_and_freeing_is_harmless() -> None:
    assert in_short(RuntimeError("first\nsecond")) == "RuntimeError: first"
    assert len(in_short(RuntimeError("word " * 100))) <= 180
    free()


class Failing:
    """Raises what torch raises, at some of its calls."""

    def __init__(self, *at: int) -> None:
        self.at = at
        self.calls = 0

    def __call__(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        if self.calls in self.at:
            raise torch.OutOfMemoryError(CUDA)


class Costly(Sample):
    """A sample that there is no room to lay out, once."""

    failing = Failing()

    def __getattribute__(self, name: str) -> Any:
        if name == "logprobs":
            Costly.failing()
        return object.__getattribute__(self, name)


def in_layout(learner: Learner, failing: Failing) -> None:
    Costly.failing = failing


def in_forward(learner: Learner, failing: Failing) -> None:
    learner.model.model.layers[1].register_forward_pre_hook(failing)


def in_backward(learner: Learner, failing: Failing) -> None:
    learner.model.model.layers[0].mlp.up_proj.weight.register_hook(failing)


def in_optimizer(learner: Learner, failing: Failing) -> None:
    learner._optimizer.register_step_pre_hook(failing)


def new(**options: Any) -> Learner:
    return Learner(llama(), **{"lr": 1e-3, "tokens_per_micro_batch": 60} | options)


def weights_of(learner: Learner) -> Tensor:
    return torch.cat([p.detach().flatten() for p in learner.model.parameters()]).clone()


def same(left: Tensor, right: Tensor, tolerance: float = 1e-6) -> bool:
    return bool((left - right).norm() <= tolerance * right.norm())


@pytest.mark.parametrize("inject", [in_layout, in_forward, in_backward, in_optimizer])
@pytest.mark.parametrize("checkpointing", ["none", "layers", "offload"])
def test_a_step_in_which_memory_ran_out_comes_out_as_one_in_which_it_did_not(
    inject: Callable[[Learner, Failing], None], checkpointing: str
) -> None:
    calm, shaken = new(checkpointing=checkpointing), new(checkpointing=checkpointing)
    inject(shaken, Failing(1 if inject is in_optimizer else 2))
    rows = [Costly(**{f: getattr(s, f) for f in Sample.__slots__}) for s in SAMPLES]
    for step in range(2):
        expected = calm.step(SAMPLES, len(SAMPLES))
        got = shaken.step(rows, len(rows))
        assert (expected.oom_retries, got.oom_retries) == (0, 1 if step == 0 else 0)
        assert got.loss == pytest.approx(expected.loss, rel=1e-6)
        assert got.grad_norm == pytest.approx(expected.grad_norm, rel=1e-6)
        assert got.trained_tokens == expected.trained_tokens
    assert same(weights_of(shaken), weights_of(calm))
    assert not any(m.training for m in shaken.model.modules())


def test_the_cap_falls_by_three_tenths_of_what_did_not_fit_and_stays_there() -> None:
    learner = new(tokens_per_micro_batch=100_000)
    in_forward(learner, Failing(1))
    first = learner.step(SAMPLES, len(SAMPLES))
    assert first.micro_batches > 1
    assert first.cap == learner.cap == int(0.7 * TOKENS)
    second = learner.step(SAMPLES, len(SAMPLES))
    assert (second.cap, second.oom_retries) == (first.cap, 0)


def test_the_cap_comes_back_in_calm_steps_but_not_above_what_was_set() -> None:
    learner = new()
    in_forward(learner, Failing(1))
    low = learner.step(SAMPLES, 3).cap
    caps = [learner.step(SAMPLES, 3).cap for _ in range(3 * CALM)]
    assert low < 60
    assert caps[CALM - 2] == low < caps[CALM - 1]
    assert caps == sorted(caps)
    assert caps[-1] <= 60
    learner.cap = 50
    assert [learner.step(SAMPLES, 3).cap for _ in range(CALM)] == [50] * CALM


def test_the_cap_does_not_fall_below_the_longest_row() -> None:
    learner = new(tokens_per_micro_batch=30)
    in_forward(learner, Failing(1))
    assert learner.step(SAMPLES, len(SAMPLES)).cap == max(len(s.input_ids) for s in SAMPLES)


def test_a_row_that_fits_once_memory_is_freed_is_trained() -> None:
    learner = new()
    in_forward(learner, Failing(1))
    report = learner.step(SAMPLES[:1], 1)
    assert (report.oom_retries, report.cap) == (1, 17)


def test_a_row_that_never_fits_ends_the_step_with_numbers_and_nothing_has_moved() -> None:
    learner = new(tokens_per_micro_batch=1000)
    in_backward(learner, Failing(*range(1, 100)))
    before = weights_of(learner)
    with pytest.raises(RunError) as ended:
        learner.step(SAMPLES, len(SAMPLES))
    text = str(ended.value)
    assert "a micro-batch of 27 tokens, the fewest that a row of 27 allows (cap 27)" in text
    assert "GiB" in text
    assert CUDA in text
    assert "update.checkpointing" in text
    assert torch.equal(before, weights_of(learner))
    assert all(p.grad is None for p in learner.model.parameters())


def test_an_optimizer_that_never_fits_ends_the_step_and_nothing_has_moved() -> None:
    learner = new()
    in_optimizer(learner, Failing(1, 2))
    before = weights_of(learner)
    with pytest.raises(RunError, match="out of memory in the optimizer"):
        learner.step(SAMPLES, len(SAMPLES))
    assert torch.equal(before, weights_of(learner))


def test_an_optimizer_that_stops_half_way_is_not_stepped_again() -> None:
    learner = new()
    learner._optimizer.register_step_post_hook(Failing(1))
    with pytest.raises(RunError, match="some weights have moved and some not"):
        learner.step(SAMPLES, len(SAMPLES))


def test_other_errors_are_not_taken_for_an_out_of_memory() -> None:
    learner = new()

    def broken(*_: Any) -> None:
        raise ValueError("a bug")

    learner.model.model.register_forward_pre_hook(broken)
    with pytest.raises(ValueError, match="a bug"):
        learner.step(SAMPLES, len(SAMPLES))


def test_optimizer_states_without_room_are_refused_in_words() -> None:
    hook = register_optimizer_step_pre_hook(Failing(1))
    try:
        with pytest.raises(RunError, match=r"no room for the optimizer's states of [\d,]+ trained"):
            new()
    finally:
        hook.remove()


class Watching(Sample):
    """Looks, whenever a micro-batch is laid out, at which tensors of earlier ones still live."""

    seen: ClassVar[list[weakref.ref[Tensor]]] = []
    alive: ClassVar[list[int]] = []

    def __getattribute__(self, name: str) -> Any:
        if name == "logprobs":
            Watching.alive.append(sum(ref() is not None for ref in Watching.seen))
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("oom", [(), (3,)])
def test_nothing_of_a_micro_batch_is_left_when_the_next_is_laid_out(oom: tuple[int, ...]) -> None:
    learner = new(tokens_per_micro_batch=27)
    Watching.seen, Watching.alive = [], []
    rows = [Watching(**{f: getattr(s, f) for f in Sample.__slots__}) for s in SAMPLES]

    def look(_: Any, __: Any, inputs: dict[str, Any]) -> None:
        Watching.seen.append(weakref.ref(inputs["input_ids"]))

    def look_deeper(_: Any, __: Any, output: Tensor) -> None:
        Watching.seen.append(weakref.ref(output))

    learner.model.model.register_forward_pre_hook(look, with_kwargs=True)
    learner.model.model.layers[0].mlp.register_forward_hook(look_deeper)
    in_backward(learner, Failing(*oom))
    assert learner.step(rows, len(rows)).oom_retries == len(oom)
    assert len(Watching.seen) >= 14
    assert len(Watching.alive) >= 7
    assert not any(Watching.alive)


class Scripted:
    """A gauge that says what it is told."""

    exact = True

    def __init__(self) -> None:
        self.now = self.highest = 100

    def reset(self) -> None:
        self.highest = self.now

    def peak(self) -> int:
        return self.highest

    def note(self, _: Any, __: Any, inputs: dict[str, Any]) -> None:
        self.highest = max(self.highest, self.now + inputs["input_ids"].numel())


def test_every_micro_batch_is_observed_with_its_tokens_and_its_own_peak() -> None:
    gauge, seen = Scripted(), list[tuple[int, int]]()
    learner = new(gauge=gauge, observe=lambda *pair: seen.append(pair))
    learner.model.model.register_forward_pre_hook(gauge.note, with_kwargs=True)
    report = learner.step(SAMPLES, len(SAMPLES))
    assert sum(tokens for tokens, _ in seen) == TOKENS
    assert all(peak == 100 + tokens for tokens, peak in seen)
    assert report.peak_bytes == max(peak for _, peak in seen)


def test_a_micro_batch_that_did_not_fit_is_not_observed() -> None:
    seen: list[tuple[int, int]] = []
    learner = new(gauge=Scripted(), observe=lambda *pair: seen.append(pair))
    in_backward(learner, Failing(1))
    report = learner.step(SAMPLES, len(SAMPLES))
    assert report.oom_retries == 1
    assert len(seen) == report.micro_batches


LIMITED = """
import resource, torch
from transformers import LlamaForCausalLM
from agentrl.update import Learner
from tests.models import llama
from tests.rows import sample

rows = [sample(i, 90, 90, 1.0 - i % 3) for i in range(8)]
def learner():
    config = llama().config
    config.intermediate_size = 4096
    torch.manual_seed(0)
    return Learner(LlamaForCausalLM(config), lr=1e-3)
ours, other = learner(), learner()
pages = int(open("/proc/self/statm").read().split()[0])
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (160 << 20), most))
got = ours.step(rows, len(rows))
resource.setrlimit(resource.RLIMIT_AS, (most, most))
expected = other.step(rows, len(rows))
pairs = zip(ours.model.parameters(), other.model.parameters())
gap = max(float((a - b).abs().max()) for a, b in pairs)
print(got.oom_retries, expected.oom_retries, got.micro_batches, got.cap)
print(abs(got.loss / expected.loss - 1), abs(got.grad_norm / expected.grad_norm - 1), gap)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS to be kept")
def test_a_step_in_a_process_that_really_has_too_little_memory_comes_out_the_same() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    counts, gaps = (line.split() for line in ran.stdout.splitlines())
    retries, without, micro_batches, cap = map(int, counts)
    assert retries >= 1
    assert without == 0
    assert micro_batches >= 2
    assert 184 <= cap < 8 * 184
    loss, norm, weights = map(float, gaps)
    assert loss < 1e-6
    assert norm < 1e-5
    assert weights < 1e-4


def resident() -> float:
    """MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_steps_leave_nothing_behind() -> None:
    learner = new(tokens_per_micro_batch=200)
    rows = [sample(i, 40, 100, 1.0 - i % 3) for i in range(8)]
    sizes = []
    for _ in range(20):
        learner.step(rows, len(rows))
        sizes.append(resident())
    late = sizes[5:]
    slope, _ = statistics.linear_regression(range(len(late)), late)
    assert slope < 1.0
