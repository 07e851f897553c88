"""Three training steps on long_log with trajectories of 8k tokens and more, on vLLM.

    python benchmarks/long_context.py [--log 7000] [--steps 3] [--budget 30000]

The embedded policy plays episodes that begin with the log read aloud, so that each is long; a
token budget binds; the peak of every update is read from the kernel, which is told to forget
the peak before it. Prints a table, then JSON, and exits 1 where a peak was above its prediction,
a trajectory too short, or the budget not binding.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import tables

from agentrl.config import TrainConfig
from agentrl.group import Group
from agentrl.training import begin, step
from agentrl.world import prepare

ENV = f"{Path(__file__).resolve().parent / 'long_logs.py'}:ReadAloud"
LEAST = 8192
"""Tokens of every trajectory."""
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""glibc gives freed memory back at once, so that what a process holds is what it uses."""


def config_of(args: argparse.Namespace, out: str) -> TrainConfig:
    """One policy, one budget."""
    return TrainConfig.model_validate(
        {
            "env": {"name": ENV, "options": {"tokens": args.log, "page": args.log}},
            "model": {"name": "tiny", "dtype": "float32"},
            "engine": {"name": "vllm", "cache_gib": 1.0, "max_live": 16},
            "rollout": {
                "max_context": args.context,
                "max_turn_tokens": 32,
                "max_tokens": 128,
            },
            "select": {"n": 8, "m": 4, "token_budget": args.budget},
            "update": {"checkpointing": "layers", "memory": args.memory},
            "train": {"tasks_per_step": 2, "steps": args.steps},
            "heldout": {"tasks": 0},
            "run": {"out": out},
        }
    )


def resident(name: str) -> int:
    """Bytes of VmRSS or VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise SystemExit("long_context: it needs Linux's /proc/self/status.")


class Mark:
    """Called between play and update: forgets the peak, and notes what is held then."""

    def __init__(self) -> None:
        self.before = 0
        self.shortest = 0

    def __call__(self, number: int, group: Group) -> Group:
        """The group as it is."""
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        self.before = resident("VmRSS")
        lengths = [trajectory.num_tokens for trajectory in group.trajectories]
        self.shortest = min([*lengths, self.shortest or min(lengths)])
        return group


async def measured(args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row a step."""
    rows = []
    with tempfile.TemporaryDirectory() as out:
        world = prepare(config_of(args, out), None, {}, (), ())
        weights = sum(p.numel() * p.element_size() for p in world.policy.model.parameters())
        course = await begin(world)
        for number in range(1, args.steps + 1):
            mark = Mark()
            row = (await step(course, mark)).row
            grown = resident("VmHWM") - mark.before
            rows.append(
                {
                    "step": number,
                    "shortest": mark.shortest,
                    "kept": row["select/kept"],
                    "tokens kept": row["select/tokens_kept"],
                    "tokens all": row["select/tokens_all"],
                    "micro-batches": row["update/micro_batches"],
                    "grown MiB": round(grown / 2**20, 1),
                    # The weights were there before; all else of an update came with it.
                    "predicted MiB": round((row["plan/predicted_bytes"] - weights) / 2**20, 1),
                    "prefix hits": row.get("engine/prefix_hits"),
                    "seconds": round(row["time/step"], 1),
                }
            )
        await world.engine.close()
    return rows


def faults(rows: list[dict[str, Any]], budget: int) -> list[str]:
    """What is not as it should be."""
    found = []
    for row in rows:
        if row["grown MiB"] > row["predicted MiB"]:
            found.append(f"step {row['step']}: the peak is above the prediction")
        if row["shortest"] < LEAST:
            found.append(f"step {row['step']}: a trajectory has {row['shortest']} tokens")
        if not row["tokens kept"] <= budget < row["tokens all"]:
            found.append(f"step {row['step']}: the budget does not bind")
    return found


def main() -> None:
    """Measure, print, judge."""
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MALLOC)
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=int, default=7000)
    parser.add_argument("--context", type=int, default=12288)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--budget", type=int, default=30000)
    parser.add_argument("--memory", default="2GiB")
    args = parser.parse_args()
    rows = asyncio.run(measured(args))
    tables.show("Long trajectories under a budget", rows)
    wrong = faults(rows, args.budget)
    print(json.dumps({"rows": rows, "faults": wrong, "machine": tables.machine()}))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
