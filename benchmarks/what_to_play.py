"""Does it pay to leave flat tasks and flat pilots out? Sampled tokens to the same accuracy.

    python benchmarks/what_to_play.py [--seeds 0 1] [--steps 40] [--arms ...]

Arms train the same policy on tool_math from the same start; `few` arms draw from the first 48
tasks only, so that tasks come again. Held-out accuracy is measured every few steps with the same
draws, and its tokens are not counted. Reported: sampled tokens until the mean of two measurements
in a row reaches a level, what was left out, and what the audits say.
Prints a table, then JSON. Time is not compared: tokens do not depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import tables

from agentrl.config import TrainConfig
from agentrl.measure import measure
from agentrl.task import ListTasks
from agentrl.training import as_played, begin, step
from agentrl.world import prepare

FEW = 48
"""Tasks that a `few` arm draws from."""
ARMS: Mapping[str, Mapping[str, Any]] = {
    "all": {},
    "pilot 4": {"pilot": 4},
    "pilot 8": {"pilot": 8},
    "few, all": {},
    "few, skip-flat 1": {"skip_flat": 1},
    "few, skip-flat 1, pilot 4": {"skip_flat": 1, "pilot": 4},
}
LEVELS = (0.7, 0.8, 0.85)
"""Accuracies whose price in tokens is told."""


@dataclass(slots=True)
class Arm:
    """One way of playing, and what came of it."""

    name: str
    seed: int
    tokens: list[int] = field(default_factory=lambda: [0])
    """Sampled so far, at each measurement."""
    accuracy: list[float] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)


async def run(name: str, seed: int, steps: int, every: int, out: str) -> Arm:
    """Train an arm and measure it on the way."""
    train = {"seed": seed, "steps": 10_000, **ARMS[name]}
    config = {"train": train, "run": {"out": out}, "heldout": {"tasks": 300}}
    world = prepare(TrainConfig.model_validate(config), None, {}, (), ())
    if name.startswith("few"):
        world.source = ListTasks([world.source[i] for i in range(FEW)])
    arm, course = Arm(name, seed), await begin(world)
    for number in range(steps + 1):
        if number:
            record = await step(course, as_played)
            arm.rows.append(dict(record.row))
        if number % every == 0:
            found, _ = await measure(
                world.mixture.make, world.heldout, k=1, seed=0, world=world.play_heldout
            )
            assert found.accuracy is not None
            arm.accuracy.append(found.accuracy.mean)
            if number:
                arm.tokens.append(sum(row["tokens/sampled"] for row in arm.rows))
    await course.pipeline.close()
    await world.engine.close()
    return arm


def price(arm: Arm, level: float) -> float | None:
    """Sampled tokens at which smoothed accuracy first reaches a level."""
    smooth = [fmean(arm.accuracy[i : i + 2]) for i in range(len(arm.accuracy))]
    for i in range(1, len(smooth)):
        if smooth[i] >= level:
            rise = smooth[i] - smooth[i - 1]
            share = min(1.0, max(0.0, (level - smooth[i - 1]) / rise)) if rise > 0 else 1.0
            return arm.tokens[i - 1] + share * (arm.tokens[i] - arm.tokens[i - 1])
    return None


def told(arms: Sequence[Arm]) -> dict[str, Any]:
    """One line of the table: an arm over its seeds."""
    rows = [row for arm in arms for row in arm.rows]
    groups = len(rows) * 4
    prices = {level: [price(arm, level) for arm in arms] for level in LEVELS}
    last = [arm.rows[-1] for arm in arms]
    return {
        "arm": arms[0].name,
        "accuracy": fmean(fmean(arm.accuracy[-2:]) for arm in arms),
        "tokens": round(fmean(arm.tokens[-1] for arm in arms)),
        **{f"to {level}": _mean(found) for level, found in prices.items()},
        "flat groups": sum(row["select/flat"] for row in rows) / groups,
        "pilots stopped": sum(row["play/pilot_flat"] for row in rows) / groups,
        "skipped a step": fmean(row["play/skipped"] for row in rows),
        "saved tokens": round(sum(row["play/saved_tokens"] for row in rows) / len(arms)),
        "wrongly stopped": _mean([row["play/wrongly_stopped"] for row in last]),
        "wrongly skipped": _mean([row["play/wrongly_skipped"] for row in last]),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """None where any of them is not known."""
    known = [value for value in values if value is not None]
    return round(fmean(known), 3) if known and len(known) == len(values) else None


def main() -> None:
    """Run all arms and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as out:
        for name in args.arms:
            for seed in args.seeds:
                found.append(asyncio.run(run(name, seed, args.steps, args.every, out)))
    table = [told([arm for arm in found if arm.name == name]) for name in args.arms]
    tables.show("tokens to an accuracy", table)
    curves = [{k: v for k, v in asdict(arm).items() if k != "rows"} for arm in found]
    print(json.dumps({"machine": tables.machine(), "table": table, "curves": curves}))


if __name__ == "__main__":
    main()
