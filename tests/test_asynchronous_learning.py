"""A run that plays ahead learns what one that does not learns, or nearly."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from agentrl import disk
from agentrl.config import TrainConfig
from agentrl.training import train

STEPS, LOOK = 24, 6


def steps_of(out: Path, limit: int, engine: str, steps: int) -> list[dict[str, Any]]:
    """The rows of a run."""
    config = TrainConfig.model_validate(
        {
            "env": {"name": "tool_math"},
            "engine": {"name": engine, "cache_gib": 0.2},
            "select": {"n": 16, "m": 8},
            "train": {
                "steps": steps,
                "tasks_per_step": 6,
                "max_staleness": limit,
                "save_every": 0,
            },
            "heldout": {"tasks": 0},
            "run": {"out": str(out), "name": f"k{limit}"},
        }
    )
    train(config)
    rows = list(disk.rows(out / f"k{limit}" / "metrics.jsonl"))
    assert max(row["stale/max"] for row in rows) == limit
    assert sum(row["stale/dropped"] for row in rows) == 0
    return rows


@pytest.mark.slow
def test_one_step_ahead_learns_tool_math_nearly_as_well(tmp_path: Path) -> None:
    rewards = {
        limit: [row["reward"] for row in steps_of(tmp_path, limit, "transformers", STEPS)]
        for limit in (0, 1)
    }
    before, after = fmean(rewards[0][:LOOK]), fmean(rewards[0][-LOOK:])
    assert after > before + 0.1
    assert fmean(rewards[1][-LOOK:]) > fmean(rewards[1][:LOOK]) + 0.6 * (after - before)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_vllm_takes_weights_in_flight_and_stays_within_the_limit(tmp_path: Path) -> None:
    rows = steps_of(tmp_path, 1, "vllm", 6)
    assert [row["version"] for row in rows] == list(range(1, 7))
    assert all(row["mismatch/k3"] < 0.05 for row in rows)
    assert all(row["mismatch/masked"] == 0 for row in rows)
