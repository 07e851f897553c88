"""The policy update against TRL's GRPOTrainer, on the same trajectories, in one process.

    python -m pip install -c constraints.txt '.[bench]'
    python benchmarks/update.py [--models tiny smollm vocabulary] [--rounds 3] [--quick]

Three models in float32: the embedded policy; SmolLM2-135M (random weights of its shape where it is
not installed: time and memory do not depend on values); two layers with 151,936 words. One group
of 32 rows, lognormal (0.8) lengths, 60% of the tokens from tools; of 101 such groups the one with
the median share of padding. Both sides compute the same gradient (the first line says how far
apart), recompute activations, clip, and step a fused AdamW.

trl             GRPOTrainer's own step: rows padded to the longest of all, 8 to a micro-batch
trl, as on GPU  the same where its head leaves out prompts; on a CPU it scores every position
padded, all     this learner's step, but micro-batches, padding and scored positions as TRL's
padded          this learner's step, but micro-batches and padding as TRL's
unshared        the learner at the smallest cap that gives as many micro-batches as TRL's, but the
                prompt, 8% of the tokens, goes through the model with every row
even            the learner as it is, at that cap
equal peak      the learner, at the largest cap whose peak is not above TRL's
8 of 32         `select`, then the learner on what it keeps, at that cap
bare            a plain loop over the micro-batches of `unshared`: packed forward, logits of trained
                positions, cross entropy, backward; neither loss nor clipping nor optimizer
bare, our head  the same, with the log-probs of `score` in place of logits

Seconds are the processor's for this process, medians over rounds in which the arms take turns; on
a machine of one's own, with OMP_NUM_THREADS=1, they are those of the clock, whose medians are in
the JSON. Memory is what torch's CPU allocator had handed out at most, by its own account (the
profiler's memory events), in the first round: unlike the size of the process it is the same in
every run, and leaves out what malloc keeps for later. States (weights, gradients, moments: 16
bytes a weight) are the same on both sides and are left out. The last line is JSON.
--quick: small rows, one round, SmolLM2 with two layers; its numbers mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("KINETO_LOG_LEVEL", "5")

import numpy as np
import torch
import transformers
from sides import ROWS, Switched, bare, model_of
from tables import machine, show
from torch import Tensor
from trajectories import Rollouts, rollouts, typical
from transformers import AutoTokenizer, PreTrainedModel
from trl_peer import Peer, completions_only

from agentrl import select
from agentrl.plan import plan
from agentrl.update import Learner
from agentrl.weights import TINY

N, M = 32, 8
LR = 1e-12
"""Every step does the same work: weights stand still."""
MEDIANS = {"tiny": 160, "smollm": 32, "vocabulary": 32}
"""Tokens of a row; small, as a step of the padded side must end within minutes on two cores."""

Watch = Callable[[], AbstractContextManager[Any]]
Arm = Callable[[Watch], None]
Tick = tuple[float, float]
"""Seconds of the processor, and of the clock."""


@dataclass
class Case:
    """One model, its rows, and what was measured on them."""

    name: str
    source: str
    data: Rollouts
    gradients: int
    """Bytes of one set; they are not there when a step begins."""
    arms: dict[str, Arm] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    ticks: dict[str, list[Tick]] = field(default_factory=dict)
    caps: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, arm: Arm) -> int:
        """Take an arm in: its first round, and its peak above the states in bytes."""
        self.arms[name] = arm
        self.ticks[name] = []
        self.peaks[name] = self.peak(arm, self.ticks[name])
        return self.peaks[name]

    def peak(self, arm: Arm, into: list[Tick] | None = None) -> int:
        """Most bytes that the allocator had handed out during a step, less the states."""
        account = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
        )
        arm(lambda: _both(account, _clock([] if into is None else into)))
        events = account.profiler.kineto_results.events()  # type: ignore[union-attr]
        memory = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
        memory.sort(key=lambda event: event[0])
        risen = int(np.cumsum([size for _, size in memory]).max())
        return max(0, risen - self.gradients)

    def time(self, rounds: int) -> None:
        """More rounds of all arms, each in another order."""
        for round_ in range(rounds):
            for name in np.random.default_rng(round_).permutation(list(self.arms)):
                self.arms[name](lambda name=name: _clock(self.ticks[name]))

    def seconds(self, name: str, which: int = 0) -> float:
        """Of a step: the processor's, or the clock's."""
        return statistics.median(tick[which] for tick in self.ticks[name])


@contextmanager
def _both(first: AbstractContextManager[Any], then: AbstractContextManager[Any]) -> Iterator[None]:
    with first, then:
        yield


@contextmanager
def _clock(into: list[Tick]) -> Iterator[None]:
    processor, clock = time.process_time(), time.perf_counter()
    yield
    into.append((time.process_time() - processor, time.perf_counter() - clock))


def prepare(name: str, median: int, quick: bool) -> Case:
    """Build both sides, find the caps, and measure every peak; this warms up as well."""
    model, source = model_of(name, quick)
    data = typical(np.random.default_rng(0), N, median, model.config.vocab_size)
    gradients = 4 * sum(p.numel() for p in model.parameters())
    case = Case(name, source, data, gradients)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    peer = Peer(deepcopy(model), tokenizer, n=N, rows=ROWS, lr=LR)

    def on_gpu(watch: Watch) -> None:
        with completions_only():
            peer.step(data, watch)

    peer.step(rollouts(np.random.default_rng(0), N, 8, model.config.vocab_size))  # makes moments
    limit = case.add("trl", lambda watch: peer.step(data, watch))
    case.add("trl, as on GPU", on_gpu)
    learner = Switched(model, lr=LR, checkpointing="layers")

    def step(watch: Watch, cap: int, **switches: bool) -> None:
        learner.cap = cap
        learner.switch(**switches)
        with watch():
            learner.step(data.samples, N)

    def selected(watch: Watch, cap: int) -> None:
        learner.cap = cap
        learner.switch()
        with watch():
            chosen = select(data.rewards, data.lengths, m=M, seed=0)
            kept = data.only(chosen.indices)
            learner.step(kept.samples, M)

    whole = sum(data.lengths)
    case.add(
        "padded, all",
        lambda watch: step(watch, whole * N, as_trl=True, every_position=True),
    )
    case.add("padded", lambda watch: step(watch, whole * N, as_trl=True))
    even = _even_cap(data.lengths, N // ROWS)
    case.add("unshared", lambda watch: step(watch, even, shared=False))
    case.add("even", lambda watch: step(watch, even))
    fits = _largest_cap(case, step, even, limit)
    case.caps = {"even": even, "equal peak": fits}
    case.add("equal peak", lambda watch: step(watch, fits))
    case.add(f"{M} of {N}", lambda watch: selected(watch, fits))
    for title, own in (("bare", False), ("bare, our head", True)):
        case.add(title, lambda watch, own=own: _watched(watch, model, data, even, own))
    return case


def _watched(watch: Watch, model: PreTrainedModel, data: Rollouts, cap: int, own: bool) -> None:
    with watch():
        bare(model, data, cap, own)


def _even_cap(lengths: Sequence[int], count: int) -> int:
    """The smallest cap that gives so many micro-batches."""
    cap = max(max(lengths), -(-sum(lengths) // count))
    while len(plan(lengths, cap)[0]) > count:
        cap += 1
    return cap


def _largest_cap(case: Case, step: Callable[..., None], even: int, limit: int) -> int:
    """By a line through two peaks, then down until the measured one is not above the limit."""

    def peak(cap: int) -> int:
        return case.peak(lambda watch: step(watch, cap))

    whole = sum(case.data.lengths)
    double = min(2 * even, whole)
    slope = (peak(double) - case.peaks["even"]) / (double - even)
    room = limit - case.peaks["even"]
    cap = whole if slope <= 0 else min(whole, int(even + room / slope))
    while cap > even and peak(cap) > limit:
        cap = max(even, int(0.93 * cap))
    return cap


def arms_of(case: Case) -> list[dict[str, Any]]:
    """A row for each arm."""
    rows = case.data
    return [
        {
            "arm": name,
            "seconds": case.seconds(name),
            "fastest": min(case.ticks[name])[0],
            "trained tokens/s": rows.trained / case.seconds(name),
            "peak MB": case.peaks[name] / 1e6,
            "times TRL's speed": case.seconds("trl") / case.seconds(name),
            "of TRL's peak": case.peaks[name] / case.peaks["trl"],
        }
        for name in case.arms
    ]


def causes_of(case: Case) -> dict[str, float]:
    """The gain in seconds, as factors whose product is the whole; one switch after the other."""
    chain = {
        "the rest": ("trl", "padded, all"),
        "scored positions": ("padded, all", "padded"),
        "padding": ("padded", "unshared"),
        "prompt once, wider": ("unshared", "equal peak"),
        "selection": ("equal peak", f"{M} of {N}"),
        "whole": ("trl", f"{M} of {N}"),
    }
    return {cause: case.seconds(a) / case.seconds(b) for cause, (a, b) in chain.items()}


def aims_of(case: Case) -> list[dict[str, Any]]:
    """What was aimed at, and what came."""

    def faster(name: str, than: str = "trl") -> float:
        return case.seconds(than) / case.seconds(name)

    def smaller(name: str, than: str = "trl") -> float:
        return case.peaks[name] / max(case.peaks[than], 1)

    heads = case.name != "tiny"
    table = [
        ("peak at equal rows, of TRL's", smaller("even"), 0.5 if heads else None, False),
        ("the same, TRL as on GPU", smaller("even", "trl, as on GPU"), None, False),
        ("speed at equal peak, times TRL's", faster("equal peak"), 2.0, True),
        ("the same, TRL as on GPU", faster("equal peak", "trl, as on GPU"), None, True),
        (f"speed with {M} of {N}, times TRL's", faster(f"{M} of {N}"), 6.0, True),
        ("seconds, of bare", 1 / faster("unshared", "bare"), 1.1, False),
        ("seconds, of bare with our head", 1 / faster("unshared", "bare, our head"), None, False),
        ("peak, of bare", smaller("unshared", "bare"), 1.1, False),
        ("peak, of bare with our head", smaller("unshared", "bare, our head"), None, False),
    ]
    return [
        {"model": case.name, "what": what, "found": found, "aim": aim, "reached": _met(*rest)}
        for what, found, aim, more in table
        for rest in [(found, aim, more)]
    ]


def _met(found: float, aim: float | None, more: bool) -> bool | None:
    return None if aim is None else (found >= aim if more else found <= aim)


def about(case: Case) -> str:
    """The rows of a case in a line."""
    lengths = case.data.lengths
    padded = len(lengths) * max(lengths) / sum(lengths)
    return (
        f"{case.name} ({case.source}): {sum(lengths)} tokens in {len(lengths)} rows, longest "
        f"{max(lengths)}, {case.data.trained} trained; padded {padded:.2f} times as many; "
        f"states {4 * case.gradients / 1e6:.0f} MB; caps {case.caps}"
    )


def check() -> float:
    """Largest relative difference between the two gradients of the tiny policy's weights."""
    found: list[dict[str, Tensor]] = []
    model, _ = model_of("tiny")
    data = rollouts(np.random.default_rng(0), N, 48, model.config.vocab_size)
    for side in (deepcopy(model), model):
        gradients: dict[str, Tensor] = {}
        for name, parameter in side.named_parameters():
            parameter.register_post_accumulate_grad_hook(
                lambda p, name=name, into=gradients: into.update({name: p.grad.clone()})
            )
        if found:
            Learner(side, lr=LR, grad_norm=1e9, checkpointing="layers").step(data.samples, N)
        else:
            tokenizer = AutoTokenizer.from_pretrained(TINY)
            Peer(side, tokenizer, n=N, rows=ROWS, lr=LR, grad_norm=0.0).step(data)
        found.append(gradients)
    theirs, ours = found
    return max(float((theirs[k] - ours[k]).norm() / theirs[k].norm()) for k in theirs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(MEDIANS), choices=list(MEDIANS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    transformers.logging.disable_progress_bar()
    scale, rounds = (0.25, 1) if args.quick else (1.0, args.rounds)
    where = machine() | {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "trl": version("trl"),
    }
    print(where)
    apart = check()
    print(f"largest relative difference of a weight's two gradients, tiny: {apart:.1e}")
    results = []
    for name in args.models:
        case = prepare(name, round(scale * MEDIANS[name]), args.quick)
        case.time(rounds - 1)
        print(f"\n{about(case)}")
        show("a step on 32 rows", arms_of(case))
        show("gain in seconds, by cause", [causes_of(case)])
        show("aims", aims_of(case))
        results.append(
            {
                "model": name,
                "about": about(case),
                "arms": arms_of(case),
                "causes": causes_of(case),
                "aims": aims_of(case),
                "ticks": case.ticks,
            }
        )
    print(json.dumps({"where": where, "gradients apart": apart, "cases": results}))


if __name__ == "__main__":
    main()
