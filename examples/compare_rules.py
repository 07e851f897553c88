"""A research question in one script: which rule learns most from as many trajectories?

    python examples/compare_rules.py                       # some minutes on two cores
    python examples/compare_rules.py --steps 4 --seeds 1   # to see that it works

Every arm plays n = 16 episodes of each task and trains on at most the same tokens a step. X
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import agentrl
from agentrl import disk
from agentrl.config import TrainConfig
from agentrl.interval import difference
from agentrl.training import RunSummary

RULES: Mapping[str, Mapping[str, object]] = {
    "max_variance": {"rule": "max_variance", "m": 4},
    "random": {"rule": "random", "m": 4},
    "max_reward": {"rule": "max_reward", "m": 4},
}
"""What is compared: settings of [select]."""


def settings(select: Mapping[str, object], seed: int, args: argparse.Namespace) -> TrainConfig:
    """One arm."""
    return TrainConfig.model_validate(
        {
            "env": {"name": args.env},
            "select": {"n": 16, **select},
            "train": {"steps": args.steps, "tasks_per_step": 4, "seed": seed, "save_every": 0},
            "heldout": {"tasks": args.tasks},
            "run": {"out": str(args.out), "name": f"{select['rule']}-{seed}", "progress": "off"},
        }
    )


def solved(run: RunSummary) -> dict[str, float]:
    """Held-out task to its score after training."""
    rows = disk.rows(Path(run.path) / "heldout" / f"{run.steps:06d}.jsonl")
    return {row["task_id"]: float(row["correct"]) for row in rows}


def paired(runs: Sequence[RunSummary], first: Sequence[RunSummary]) -> list[float]:
    """What the runs score above the first rule's with the same seed, task by task."""
    return [
        score - other[task]
        for run, of in zip(runs, first, strict=True)
        for other in [solved(of)]
        for task, score in solved(run).items()
    ]


def line(rule: str, runs: Sequence[RunSummary], first: Sequence[RunSummary]) -> str:
    """A row of the table."""
    before = fmean(run.before.mean for run in runs if run.before)
    after = fmean(run.after.mean for run in runs if run.after)
    trained = fmean(run.tokens["trained"] for run in runs)
    ahead = difference(paired(runs, first))
    told = f"{ahead.mean:+.3f}  [{ahead.low:+.3f}, {ahead.high:+.3f}]" if ahead else "-"
    return f"{rule:<14}{before:.3f} -> {after:.3f}{trained:>14,.0f}    {told}"


def main() -> None:
    """Train every arm with every seed, and print the table."""
    parser = argparse.ArgumentParser(
        description="Which rule learns most from as many trajectories?"
    )
    parser.add_argument("--env", default="tool_math")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=200, help="held-out tasks")
    parser.add_argument("--out", type=Path, default=Path("runs/rules"))
    args = parser.parse_args()
    runs: dict[str, list[RunSummary]] = {rule: [] for rule in RULES}
    for seed in range(args.seeds):
        for rule, select in RULES.items():
            runs[rule].append(agentrl.train(settings(select, seed, args)))
    print(f"{'rule':<14}{'held-out':<14}{'trained on':>14}    ahead of the first")
    first = next(iter(runs.values()))
    for rule, done in runs.items():
        print(line(rule, done, first))


if __name__ == "__main__":
    main()
