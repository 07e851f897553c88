"""Is it the reward that teaches? Three seeds, and two controls that must not learn.

    python benchmarks/controls.py [--seeds 0 1 2] [--engine transformers] [--model tiny]

Prints a table and JSON: held-out accuracy before and after with the settings as they come;
the same with rewards permuted within every group; and the trained policy with the
calculator taken away.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agentrl.config import EvalConfig, EvalSection, TrainConfig
from agentrl.evaluation import evaluate
from agentrl.group import Group
from agentrl.ledger import RunSummary
from agentrl.sections import EnvSection
from agentrl.training import train

HERE = Path(__file__).resolve().parent
TAKEN_AWAY = f"{HERE / 'no_calculator.py'}:NoCalculator"


def permuted(step: int, group: Group) -> Group:
    """The group with its rewards dealt out anew: same spread, no information."""
    order = np.random.default_rng([step, int(group.task.hash[:8], 16)]).permutation(
        len(group.trajectories)
    )
    dealt = [group.trajectories[i] for i in order]
    return Group(
        group.task,
        tuple(
            replace(t, reward=d.reward, reward_parts=d.reward_parts)
            for t, d in zip(group.trajectories, dealt, strict=True)
        ),
    )


def run(config: TrainConfig, name: str, **control: Any) -> dict[str, Any]:
    """One training run as a row."""
    summary = train(config, **control)
    return {"run": name, "seed": config.train.seed, **_figures(summary), "path": summary.path}


def _figures(summary: RunSummary) -> Mapping[str, Any]:
    before, after = summary.before, summary.after
    assert before is not None
    assert after is not None
    return {
        "before": before.mean,
        "after": after.mean,
        "low": after.low,
        "high": after.high,
        "lift": after.mean - before.mean,
        "seconds": round(sum(summary.seconds.values()), 1),
    }


def without_calculator(row: Mapping[str, Any]) -> dict[str, Any]:
    """The trained policy of a run, its calculator gone."""
    config = EvalConfig(env=EnvSection(name=TAKEN_AWAY), eval=EvalSection(run=row["path"]))
    found = evaluate(config).measurement.accuracy
    assert found is not None
    return {"run": "no calculator", "seed": row["seed"], "after": found.mean}


def main() -> None:
    """Run all and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--steps", type=int, default=TrainConfig().train.steps)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as out:
        for seed in args.seeds:
            config = TrainConfig.model_validate(
                {
                    "train": {"seed": seed, "steps": args.steps},
                    "engine": {"name": args.engine},
                    "model": {"name": args.model},
                    "run": {"out": out},
                }
            )
            rows.append(run(config, "as it comes"))
            rows.append(without_calculator(rows[-1]))
            rows.append(run(config, "rewards permuted", relabel=permuted))
            _table(rows[-3:])
    print(json.dumps({"machine": platform.processor() or platform.machine(), "rows": rows}))


def _table(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        figures = "  ".join(
            f"{k} {row[k]:.3f}" for k in ("before", "after", "lift", "seconds") if k in row
        )
        print(f"{row['run']:<18} seed {row['seed']}  {figures}", flush=True)


if __name__ == "__main__":
    main()
