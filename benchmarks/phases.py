"""Where a step's time goes, by the length of what tools return.

    python benchmarks/phases.py [--lines 0 30 120 400] [--steps 3]

The embedded policy plays tool_math with a calculator that adds a log to its results. Each
length takes its steps with all n trajectories trained on, and with m of n; the ways take
turns. Prints a table, then JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import tables

from agentrl.config import TrainConfig
from agentrl.course import Course
from agentrl.training import STEP_PHASES, as_played, begin, step
from agentrl.world import prepare

ENV = f"{Path(__file__).resolve().parent / 'long_results.py'}:LongResults"
N, M = 32, 8
WAYS = {
    "GRPO(n,n)": {"m": N, "rule": "all"},
    "PODS(n,m)": {"m": M},
    "PODS, half its tokens": {"m": M, "token_budget": 1},
}


async def start(lines: int, way: str, budget: int, out: str) -> Course:
    """A run before its first step."""
    choice = {"n": N, **WAYS[way]}
    if "token_budget" in choice:
        choice["token_budget"] = budget
    config = TrainConfig.model_validate(
        {
            "env": {"name": ENV, "options": {"lines": lines}},
            "select": choice,
            "train": {"tasks_per_step": 1},
            "run": {"out": out},
        }
    )
    return await begin(prepare(config, None, {}, (), ()))


async def measured(lines: int, steps: int, out: str) -> list[dict[str, Any]]:
    """Phases of every way at one length."""
    first = await start(lines, "PODS(n,m)", 0, out)
    half = (await step(first, as_played)).chosen.selection.report.tokens_kept // 2
    await first.world.engine.close()
    runs = {way: await start(lines, way, half, out) for way in WAYS}
    tokens = dict.fromkeys(WAYS, 0)
    played = 0
    for _ in range(steps):
        for way, course in runs.items():
            row = (await step(course, as_played)).row
            tokens[way] += row["select/tokens_kept"]
            played += row["select/tokens_all"]
    for course in runs.values():
        await course.world.engine.close()
    length = played / (N * steps * len(WAYS))
    return [
        {
            "lines": lines,
            "length": length,
            "way": way,
            "tokens": tokens[way] / steps,
            "step": sum(course.clock.spent.get(p, 0.0) for p in STEP_PHASES) / steps,
            **{p: course.clock.spent.get(p, 0.0) / steps for p in STEP_PHASES},
        }
        for way, course in runs.items()
    ]


def main() -> None:
    """Measure all lengths and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=[0, 30, 120, 400])
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'tokens/row':>10}  {'way':<22}{'trained':>9}{'s/step':>8}   share of {STEP_PHASES}")
    for lines in args.lines:
        with tempfile.TemporaryDirectory() as out:
            found = asyncio.run(measured(lines, args.steps, out))
        whole = found[0]["step"]
        for r in found:
            shares = " / ".join(f"{r[p] / r['step']:.1%}" for p in STEP_PHASES)
            print(
                f"{r['length']:10.0f}  {r['way']:<22}{r['tokens']:9.0f}{r['step']:8.2f}   {shares}"
                f"   {whole / r['step']:.2f} times as fast as GRPO(n,n)",
                flush=True,
            )
        rows += found
    print(json.dumps({**tables.machine(), "rows": rows}))


if __name__ == "__main__":
    main()
