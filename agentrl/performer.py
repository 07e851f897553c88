"""Who is measured: a model played here, or one behind an endpoint.

In    an EvalConfig
Out   Performer: its name and identity for headers, and players for one environment after another
Not   the measurement; nor a change to weights: what is loaded is what is on disk
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl import checkpoint, record
from agentrl.config import EvalConfig
from agentrl.dialogue import Line, converse
from agentrl.endpoint import Endpoint, key_of
from agentrl.engines import build
from agentrl.env import ToolEnv
from agentrl.episode import Limits, Seat
from agentrl.errors import UsageError
from agentrl.header import LIMITS, sha256_of, weights_sha256
from agentrl.mixture import Mixture
from agentrl.player import Played, Player, through
from agentrl.policy import Sampling
from agentrl.render import renderer_for
from agentrl.saved import saved
from agentrl.sections import RolloutSection
from agentrl.smollm import TEMPLATE
from agentrl.task import Task
from agentrl.weights import ModelWeights, Policy, load_policy
from agentrl.world import check_fits, play_of

SHIPPED = "hermes"
"""The chat template that comes along, for models whose own has no place for tools."""


@dataclass(frozen=True, slots=True)
class Performer:
    """What is measured, ready to play."""

    name: str
    identity: Mapping[str, Any]
    """Its part of a header."""
    player: Callable[[Mixture, Sequence[Task], EvalConfig], Player]
    begin: Callable[[], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


def performer_of(config: EvalConfig, max_context: int) -> Performer:
    """The performer that settings name; contexts of all that it will play fit in `max_context`."""
    return _remote(config) if config.endpoint.base_url else _local(config, max_context)


def pinned(config: EvalConfig) -> EvalConfig:
    """The same settings, where a run's newest checkpoint is named by its step."""
    run, step = record.parted(config.eval.run)
    if not run or step:
        return config
    found = checkpoint.find(record.locate(run).checkpoints)
    section = config.eval.model_copy(update={"run": f"{run}@{int(found.name)}"})
    return config.model_copy(update={"eval": section})


def _local(config: EvalConfig, max_context: int) -> Performer:
    run = config.eval.run
    name = str(saved(run).folder) if run else config.model.name
    policy = load_policy(name, dtype=config.model.dtype)
    template = _dress(policy, config.template)
    renderer = renderer_for(policy.tokenizer)
    settings, seed = config.engine, config.eval.seed
    order = build.Order(settings, policy, policy.folder, max_context, seed, rollout=config.rollout)
    engine = build.build(order)

    def player(mixture: Mixture, tasks: Sequence[Task], one: EvalConfig) -> Player:
        check_fits(mixture, tasks, renderer, one.rollout, policy)
        return through(play_of(one.rollout, engine, renderer, one.eval.split))

    async def begin() -> None:
        await engine.load(ModelWeights(policy.model), 0)

    name = run or policy.name
    model = {
        "name": name,
        "sha256": weights_sha256(policy.folder),
        "dtype": str(policy.model.dtype).removeprefix("torch."),
    }
    identity = {"model": model, "engine": engine.name, "endpoint": None, "template": template}
    return Performer(name, identity, player, begin, engine.close)


def _remote(config: EvalConfig) -> Performer:
    settings, name = config.endpoint, config.model.name
    endpoint = Endpoint(settings, key_of(settings))

    def player(mixture: Mixture, tasks: Sequence[Task], one: EvalConfig) -> Player:
        sampling = Sampling(one.rollout.temperature)
        line = Line(endpoint, name, sampling, limits_of(one.rollout), one.eval.split)

        async def play(env: ToolEnv, seat: Seat) -> Played:
            return await converse(env, seat, line)

        return Player(play, settings.max_live, seconds=one.rollout.timeout)

    async def begin() -> None:
        """Nothing to prepare: the first request finds out."""

    identity = {
        "model": {"name": name},
        "engine": "endpoint",
        "endpoint": settings.model_dump(),
        "template": {"source": "the server's"},
    }
    return Performer(name, identity, player, begin, endpoint.close)


def limits_of(rollout: RolloutSection) -> Limits:
    """What an episode may use."""
    return Limits(**{name: getattr(rollout, name) for name in LIMITS})


def _dress(policy: Policy, template: str) -> dict[str, str]:
    """Give the policy the template that was asked for, and say which it has."""
    tokenizer: Any = policy.tokenizer
    shipped = TEMPLATE.read_text(encoding="utf-8")
    if template == SHIPPED:
        tokenizer.chat_template = shipped
    elif template:
        try:
            tokenizer.chat_template = Path(template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"--template {template}: cannot be read ({error}). Name a Jinja file, or {SHIPPED}."
            ) from error
    text = str(tokenizer.chat_template or "")
    source = template or ("the model's own" if text != shipped else SHIPPED)
    return {"source": source, "sha256": sha256_of(text)}
