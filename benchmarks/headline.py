"""Does down-sampling pay? Seven ways of training at equal wall time, interleaved.

    python benchmarks/headline.py [--seeds 0 1 2] [--seconds 48] [--slice 6]

Every arm trains the same policy in the same environment from the same start. Arms take turns
in slices of a few seconds, so that a machine whose speed drifts is unfair to none; held-out
accuracy is measured after each slice and its time is not counted. Reported: accuracy against
seconds and against trained tokens, how seconds split over phases, and the time to the peak of
GRPO(n, n) with a bootstrap interval over seeds. Prints a table, then JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tables

from agentrl.config import TrainConfig
from agentrl.course import Course
from agentrl.measure import measure
from agentrl.training import STEP_PHASES, as_played, begin, step
from agentrl.world import prepare

N, M = 32, 8
BUDGET = 2048
"""Tokens of a step; half of what PODS(n,m) keeps here."""
WHOLE = {"select": {"n": N, "m": N, "rule": "all"}}
ARMS: Mapping[str, Mapping[str, Any]] = {
    "GRPO(n,n)": WHOLE,
    "GRPO(n,n), accumulated": {**WHOLE, "update": {"tokens_per_micro_batch": 2048}},
    "GRPO(m,m)": {"select": {"n": M, "m": M, "rule": "all"}},
    "random m of n": {"select": {"n": N, "m": M, "rule": "random"}},
    "PODS(n,m)": {"select": {"n": N, "m": M}},
    "PODS, token budget": {
        "select": {"n": N, "m": M, "token_budget": BUDGET, "within": "cheapest"},
    },
    "the same, within ht": {
        "select": {"n": N, "m": M, "token_budget": BUDGET, "within": "ht"},
    },
}
PEER = "GRPO(n,n)"


@dataclass(slots=True)
class Point:
    """Where an arm stands after a slice."""

    seconds: float
    tokens: int
    """Forwarded by updates so far."""
    steps: int
    accuracy: float


@dataclass(slots=True)
class Arm:
    """One way of training, at some point of its run."""

    name: str
    seed: int
    course: Course
    curve: list[Point] = field(default_factory=list)

    @property
    def trained(self) -> float:
        """Seconds of training: evaluation is not counted."""
        return sum(self.course.clock.spent.get(name, 0.0) for name in STEP_PHASES)

    async def advance(self, until: float) -> None:
        """Train up to a number of seconds, then measure."""
        while self.trained < until:
            await step(self.course, as_played)
        world = self.course.world
        found, _ = await measure(
            world.mixture.make, world.heldout, k=1, seed=0, world=world.play_heldout
        )
        assert found.accuracy is not None
        standing = world.standing
        self.curve.append(
            Point(self.trained, standing.tokens["forwarded"], standing.step, found.accuracy.mean)
        )


async def start(name: str, seed: int, out: str) -> Arm:
    """An arm before its first step."""
    settings: dict[str, dict[str, Any]] = {
        "train": {"seed": seed, "steps": 10_000},
        "run": {"out": out},
    }
    for section, values in ARMS[name].items():
        settings[section] = {**settings.get(section, {}), **values}
    world = prepare(TrainConfig.model_validate(settings), None, {}, (), ())
    return Arm(name, seed, await begin(world))


async def run_seed(seed: int, args: argparse.Namespace, out: str) -> list[Arm]:
    """All arms of a seed, slice by slice, in an order that changes."""
    arms = [await start(name, seed, out) for name in args.arms]
    rng = np.random.default_rng(seed)
    for arm in arms:
        await arm.advance(0.0)
    for end in np.arange(args.slice, args.seconds + 1e-9, args.slice):
        for position in rng.permutation(len(arms)):
            await arms[position].advance(float(end))
    for arm in arms:
        await arm.course.world.engine.close()
        print(_line(arm), flush=True)
    return arms


def _line(arm: Arm) -> str:
    points = " ".join(f"{p.accuracy:.2f}" for p in arm.curve)
    last = arm.curve[-1]
    return f"seed {arm.seed} {arm.name:<24}{points}  {last.steps} steps {last.tokens} tokens"


def time_to(arm: Arm, level: float, axis: str) -> float:
    """Seconds or tokens at which the curve first reaches a level, between points in a line."""
    for a, b in zip(arm.curve, arm.curve[1:], strict=False):
        if b.accuracy >= level:
            rise = b.accuracy - a.accuracy
            share = max(0.0, (level - a.accuracy) / rise) if rise > 0 else 0.0
            x, y = getattr(a, axis), getattr(b, axis)
            return float(x + share * (y - x))
    return float("inf")


def table(arms: Sequence[Arm]) -> list[dict[str, Any]]:
    """A row an arm, over its seeds."""
    seeds = sorted({arm.seed for arm in arms})
    of = {(arm.name, arm.seed): arm for arm in arms}
    names = list(dict.fromkeys(arm.name for arm in arms))
    peaks = {s: max(p.accuracy for p in of[PEER, s].curve) for s in seeds}
    rng = np.random.default_rng(0)
    rows = []
    for name in names:
        mine = [of[name, s] for s in seeds]
        ratios = np.array(
            [
                time_to(of[PEER, s], peaks[s], "seconds")
                / time_to(of[name, s], peaks[s], "seconds")
                for s in seeds
            ]
        )
        means = ratios[rng.integers(len(seeds), size=(2000, len(seeds)))].mean(1)
        spent = [sum(a.course.clock.spent.get(p, 0.0) for a in mine) for p in STEP_PHASES]
        rows.append(
            {
                "arm": name,
                "final": float(np.mean([a.curve[-1].accuracy for a in mine])),
                "mean over time": float(np.mean([p.accuracy for a in mine for p in a.curve])),
                "steps": float(np.mean([a.curve[-1].steps for a in mine])),
                "tokens": float(np.mean([a.curve[-1].tokens for a in mine])),
                "seconds to 0.85": float(np.mean([time_to(a, 0.85, "seconds") for a in mine])),
                "tokens to 0.85": float(np.mean([time_to(a, 0.85, "tokens") for a in mine])),
                "speed to peak": float(ratios.mean()),
                "speed interval": [float(v) for v in np.quantile(means, [0.025, 0.975])],
                "phases": dict(zip(STEP_PHASES, (s / sum(spent) for s in spent), strict=True)),
            }
        )
    return rows


def main() -> None:
    """Run all seeds and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=48)
    parser.add_argument("--slice", type=float, default=6)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        arms = [a for seed in args.seeds for a in asyncio.run(run_seed(seed, args, out))]
    rows = table(arms)
    head = f"{'arm':<24}{'final':>7}{'mean':>7}{'steps':>7}{'tokens':>9}{'s to .85':>10}"
    print(head + f"{'tok to .85':>12}  speed to GRPO(n,n)'s peak   rollout/select/update/sync")
    for r in rows:
        low, high = r["speed interval"]
        phases = "/".join(f"{v:.1%}" for v in r["phases"].values())
        print(
            f"{r['arm']:<24}{r['final']:7.3f}{r['mean over time']:7.3f}{r['steps']:7.0f}"
            f"{r['tokens']:9.0f}{r['seconds to 0.85']:10.1f}{r['tokens to 0.85']:12.0f}"
            f"  {r['speed to peak']:.2f} [{low:.2f}, {high:.2f}]   {phases}"
        )
    curves = [
        {
            "arm": a.name,
            "seed": a.seed,
            "curve": [[p.seconds, p.tokens, p.steps, p.accuracy] for p in a.curve],
        }
        for a in arms
    ]
    facts = {**tables.machine(), "seconds": args.seconds}
    print(json.dumps({**facts, "rows": rows, "curves": curves}))


if __name__ == "__main__":
    main()
