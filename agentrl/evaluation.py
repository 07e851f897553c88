"""evaluate: a policy's accuracy on tasks, played as in training.

In    an EvalConfig: an environment, a model or a run's checkpoint, tasks and attempts
Out   Evaluation; episodes and summary on disk where a folder is given
Not   a change to the run whose checkpoint is measured
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentrl import checkpoint, disk, record
from agentrl.blocking import refuse_running_loop
from agentrl.config import EvalConfig
from agentrl.engines import build
from agentrl.errors import UsageError
from agentrl.events import Listener, counting, tell
from agentrl.measure import Measurement, distinct, measure, refuse_if_all_broke
from agentrl.mixture import mixture_of
from agentrl.record import episode_lines
from agentrl.render import renderer_for
from agentrl.weights import ModelWeights, load_policy
from agentrl.world import check_fits, play_of


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured, of what."""

    env: str
    model: str
    split: str
    measurement: Measurement
    path: str | None
    """Folder of the episodes, where one was asked for."""

    def as_json(self) -> dict[str, Any]:
        """The document that `agentrl eval --json` prints."""
        found = disk.plain(self.measurement.as_json())
        return {
            "env": self.env,
            "model": self.model,
            "split": self.split,
            **found,
            "path": self.path,
        }


def evaluate(
    config: EvalConfig,
    *,
    command: Sequence[str] = (),
    listeners: Sequence[Listener] = (),
) -> Evaluation:
    """Measure a policy on tasks.

    Raises:
        UsageError: a setting is wrong, or the folder holds an evaluation already.
    """
    refuse_running_loop("evaluate", "await asyncio.to_thread(agentrl.evaluate, config)")
    out = Path(config.out) if config.out else None
    if out is not None and (out / "summary.json").exists():
        raise UsageError(f"--out {out}: it holds an evaluation. Give another folder.")
    if out is not None:
        record.check_free(config.out, "")
    mixture = mixture_of(config.env.name, config.env.options)
    tasks = distinct(mixture.source(config.eval.split), config.eval.tasks, mixture.name)
    policy = load_policy(_model(config), dtype=config.model.dtype)
    renderer = renderer_for(policy.tokenizer)
    check_fits(mixture, tasks, renderer, config.rollout, policy)
    engine = build.build(
        build.Order(
            config.engine, policy, policy.folder, config.rollout.max_context, config.eval.seed
        )
    )
    world = play_of(config.rollout, engine, renderer, config.eval.split)
    emit = partial(tell, listeners)

    async def run() -> tuple[Measurement, list[Any]]:
        try:
            await engine.load(ModelWeights(policy.model), 0)
            return await measure(
                mixture.make,
                tasks,
                k=config.eval.k,
                seed=config.eval.seed,
                world=world,
                on_done=counting(emit, "heldout", len(tasks) * config.eval.k),
            )
        finally:
            await engine.close()

    found, groups = asyncio.run(run())
    refuse_if_all_broke(groups, "eval")
    result = Evaluation(
        config.env.name, policy.name, config.eval.split, found, str(out) if out else None
    )
    if out is not None:
        _write(out, result, groups, command)
    return result


def _model(config: EvalConfig) -> str:
    """The model's name, or the folder of a run's checkpointed policy."""
    if not config.eval.run:
        return config.model.name
    run, _, step = config.eval.run.partition("@")
    if step and not step.isdigit():
        raise UsageError(f"--run {config.eval.run}: {step!r} is no step. Write RUN or RUN@STEP.")
    folder = record.locate(run)
    return str(checkpoint.find(folder.checkpoints, int(step) if step else None) / checkpoint.POLICY)


def _write(out: Path, result: Evaluation, groups: Sequence[Any], command: Sequence[str]) -> None:
    summary: Mapping[str, Any] = {**result.as_json(), "command": list(command)}
    try:
        out.mkdir(parents=True, exist_ok=True)
        every = [t for g in groups for t in g.trajectories]
        disk.replace(out / "episodes.jsonl", episode_lines(every))
        disk.replace(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    except OSError as error:
        raise UsageError(
            f"--out {out}: cannot be written ({error.strerror}). Give another folder."
        ) from error
