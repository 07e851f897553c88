"""Does playing ahead pay? The same run with max_staleness 0, 1, ..., one after the other.

    python benchmarks/asynchronous.py [--limits 0 1 2] [--seeds 0 1] [--steps 12] [--engine NAME]

Seconds are wall time and depend on the machine and its neighbours; arms take turns. Accuracy is on
held-out tasks, after the same number of steps.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import tables

from agentrl import disk
from agentrl.config import TrainConfig
from agentrl.training import train

ENV = f"{Path(__file__).resolve().parent / 'slow_math.py'}:SlowMath"
MEANS = {
    "step": "time/step",
    "rollout": "time/rollout",
    "update": "time/update",
    "learner waits": "time/idle_learner",
    "engine waits": "time/idle_engine",
    "stale": "stale/mean",
    "k3": "mismatch/k3",
}
WARM_UP = 1
"""Steps that are not averaged: nothing is ahead yet."""


def measured(limit: int, seed: int, args: argparse.Namespace, out: str) -> dict[str, Any]:
    """One run."""
    config = TrainConfig.model_validate(
        {
            "env": {"name": ENV, "options": {"median": args.median}},
            "engine": {"name": args.engine},
            "select": {"n": args.n, "m": args.n // 2},
            "train": {
                "max_staleness": limit,
                "steps": args.steps,
                "tasks_per_step": args.tasks,
                "seed": seed,
                "save_every": 0,
            },
            "heldout": {"tasks": args.heldout},
            "run": {"out": out, "name": f"k{limit}s{seed}"},
        }
    )
    summary = train(config)
    rows = list(disk.rows(Path(summary.path) / "metrics.jsonl"))[WARM_UP:]
    assert summary.before is not None
    assert summary.after is not None
    return {
        "limit": limit,
        "seed": seed,
        "before": summary.before.mean,
        "after": summary.after.mean,
        **{name: fmean(row[metric] or 0.0 for row in rows) for name, metric in MEANS.items()},
        "dropped": sum(row["stale/dropped"] for row in rows),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--median", type=float, default=0.3)
    parser.add_argument("--n", type=int, default=16)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--heldout", type=int, default=100)
    args = parser.parse_args()
    names = [*MEANS, "dropped", "before", "after"]
    print("K seed  " + "".join(f"{name:>15}" for name in names))
    rows = []
    with tempfile.TemporaryDirectory() as out:
        for seed in args.seeds:
            for limit in args.limits:
                row = measured(limit, seed, args, out)
                rows.append(row)
                cells = "".join(f"{row[name]:15.3f}" for name in names)
                print(f"{limit} {seed:4}  {cells}", flush=True)
    print(json.dumps({**tables.machine(), "settings": vars(args), "rows": rows}))


if __name__ == "__main__":
    main()
