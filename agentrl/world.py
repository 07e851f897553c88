"""Settings → World: everything a run needs, made and checked before anything is written.

In    a TrainConfig, perhaps a run to go on with
Out   World: environment, tasks, policy, learner, engine, folder; run.json kept up to date
Not   the loop (training.py)
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentrl import checkpoint, record, resuming
from agentrl.about import about
from agentrl.config import TrainConfig
from agentrl.curriculum import refuse_without_levels
from agentrl.engines import build
from agentrl.engines.room import room_of, share_of
from agentrl.episode import Limits, Play
from agentrl.errors import UsageError
from agentrl.events import Event, Learned, Listener, Warned, tell
from agentrl.forecast import Forecast, forecast_of, probe
from agentrl.gate import Gate, Gates
from agentrl.interrupt import deaf
from agentrl.interval import Interval
from agentrl.loss import Trust
from agentrl.measure import Measurement, distinct
from agentrl.mixture import Mixture, firsts, mixture_of
from agentrl.opening import opening_of
from agentrl.parallel import SINGLE, Parallel
from agentrl.policy import Engine, Sampling
from agentrl.ranks import Leader, follow
from agentrl.record import RunFolder
from agentrl.render import Renderer, renderer_for
from agentrl.sampler import draw
from agentrl.sections import RolloutSection
from agentrl.sinks import attended
from agentrl.state import Standing
from agentrl.task import Task, TaskSource
from agentrl.tomlfile import dump_toml
from agentrl.update import Learner
from agentrl.version import __version__
from agentrl.weights import ModelWeights, Policy, load_policy

FREE = frozenset(
    {
        "train.steps",
        "train.eval_every",
        "train.save_every",
        "train.keep_checkpoints",
        "train.keep_best",
        "train.flat_warning",
        "record.tokens",
        "record.sinks",
        "rollout.requests_at_once",
        "rollout.resets_at_once",
        "rollout.calls_at_once",
        "engine.urls",
        "engine.weights",
        "engine.weights_folder",
        "engine.requests",
        "engine.retries",
        "engine.request_timeout",
        "engine.token_timeout",
        "engine.sync_timeout",
        "engine.patience",
        "update.tokens_per_micro_batch",
        "update.memory",
        "update.checkpointing",
        "update.parallel",
    }
)
"""Settings that a resumed run may change; those of [run] are free too."""

PHASES = ("rollout", "select", "update", "sync", "eval")
"""What a run's seconds are counted under."""


@dataclass(slots=True)
class World:
    """A run's parts. Only standing, the weights and what was measured change."""

    config: TrainConfig
    folder: RunFolder
    held: ExitStack
    """Open as long as the folder is this process's own."""
    mixture: Mixture
    """What is played."""
    source: TaskSource
    heldout: Sequence[Task]
    policy: Policy
    forecast: Forecast
    learner: Learner | Leader
    engine: Engine
    play: Play
    play_heldout: Play
    standing: Standing
    parts: Mapping[str, checkpoint.Part]
    listeners: Sequence[Listener]
    facts: dict[str, Any]
    first_step: int = 1
    measured: dict[int, Measurement] = field(default_factory=dict)
    most_oversize: int = 0
    """Of any step so far: trajectories that no micro-batch held."""

    @property
    def about(self) -> dict[str, Any]:
        """What makes the run's numbers, for its checkpoints."""
        return about(self.policy.tokenizer, self.config)

    @property
    def weights(self) -> ModelWeights:
        """The weights as they are now."""
        return ModelWeights(self.policy.model)

    @property
    def before(self) -> Interval | None:
        """Held-out accuracy before the first update, measured now or by the run resumed."""
        if 0 in self.measured:
            return self.measured[0].accuracy
        found = self.facts["heldout"]["before"]
        return found and Interval(found["mean"], found["low"], found["high"])

    @property
    def accuracy(self) -> float | None:
        """Held-out accuracy at this step, where it was measured."""
        found = self.measured.get(self.standing.step)
        return found.accuracy.mean if found is not None and found.accuracy else None

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds in all, by phase, and what no phase counts."""
        spent = {name: self.standing.seconds.get(name, 0.0) for name in ("total", *PHASES)}
        other = spent["total"] - sum(spent[name] for name in PHASES)
        return {**spent, "other": max(0.0, other)}

    def emit(self, event: Event) -> None:
        """Tell every listener."""
        tell(self.listeners, event)


def prepare(
    config: TrainConfig,
    resume: str | None,
    origin: Mapping[str, str],
    command: Sequence[str],
    listeners: Sequence[Listener],
    parallel: Parallel = SINGLE,
) -> World:
    """Make a run's parts; the folder is made last, when all else is known to work."""
    with ExitStack() as held:
        world = _prepare(config, resume, origin, command, listeners, parallel, held)
        world.held = held.pop_all()
    return world


def _prepare(
    config: TrainConfig,
    resume: str | None,
    origin: Mapping[str, str],
    command: Sequence[str],
    listeners: Sequence[Listener],
    parallel: Parallel,
    held: ExitStack,
) -> World:
    going_on = None if resume is None else record.locate(resume, config.run.out)
    if going_on is None:
        record.check_free(config.run.out, config.run.name)
    else:
        resuming.same_settings(going_on, config, FREE)
        held.enter_context(record.hold(going_on))
    mixture = mixture_of(config.env.name, config.env.options)
    source, heldout = _tasks(config, mixture)
    policy = _policy(config)
    renderer = renderer_for(policy.tokenizer)
    check_fits(mixture, source, renderer, config.rollout, policy)
    forecast = _forecast(config, policy)
    own = _learner(config, policy, forecast, parallel)
    learner = Leader(own, parallel) if parallel.world > 1 else own
    engine = _engine(config, policy)
    standing = Standing()
    folder = going_on or record.create(config.run.out, config.run.name, _prefix(config.env.name))
    if going_on is None:
        held.enter_context(record.hold(folder))
    world = World(
        config=config,
        folder=folder,
        held=held,
        mixture=mixture,
        source=source,
        heldout=heldout,
        policy=policy,
        forecast=forecast,
        learner=learner,
        engine=engine,
        play=play_of(config.rollout, engine, renderer, "train", learns=True),
        play_heldout=play_of(config.rollout, engine, renderer, "test"),
        standing=standing,
        parts={
            checkpoint.POLICY: policy,
            "learner": learner,
            "forecast": forecast,
            "standing": standing,
        },
        listeners=held.enter_context(attended(listeners, folder.logs, command, config)),
        facts=_facts(config, engine, command),
    )
    if going_on is not None:
        _restore(world)
    probe(learner, forecast, config.rollout.max_context)
    own.progress = lambda done, of: world.emit(Learned(done, of))
    folder.write_config(dump_toml(config), origin)
    return world


def assist(config: TrainConfig, parallel: Parallel) -> int:
    """The part of a rank that does not play: its share of every update."""
    with deaf():
        policy = _policy(config)
        learner = _learner(config, policy, _forecast(config, policy), parallel)
        return follow(learner, policy, parallel)


def play_of(
    rollout: RolloutSection, engine: Engine, renderer: Renderer, split: str, *, learns: bool = False
) -> Play:
    """How episodes are played: the same in training and on held-out tasks.

    Args:
        rollout: Settings.
        engine: What plays.
        renderer: What its tokens mean.
        split: Where the tasks come from.
        learns: The tokens will be trained on, so each needs its log-prob.
    """
    limits = Limits(
        max_turn_tokens=rollout.max_turn_tokens,
        max_tokens=rollout.max_tokens,
        max_context=rollout.max_context,
        max_observation_tokens=rollout.max_observation_tokens,
        timeout=rollout.timeout,
    )
    gates = Gates(
        requests=Gate(rollout.requests_at_once),
        resets=Gate(rollout.resets_at_once),
        calls=Gate(rollout.calls_at_once),
    )
    return Play(
        engine,
        renderer,
        Sampling(rollout.temperature),
        limits,
        split,
        gates=gates,
        max_refills=rollout.max_refills,
        learns=learns,
    )


def check_fits(
    mixture: Mixture,
    source: Sequence[Task] | TaskSource,
    renderer: Renderer,
    rollout: RolloutSection,
    policy: Policy,
) -> None:
    """Refuse a context in which not even the first turn has room, in any part of a mixture."""
    prompt = max(_prompt(mixture, task, renderer) for task in firsts(mixture, source))
    positions = int(getattr(policy.model.config, "max_position_embeddings", 0) or 1 << 30)
    context = min(rollout.max_context, positions)
    need = prompt + rollout.max_turn_tokens
    if need > context:
        raise UsageError(
            f"--rollout.max_turn_tokens {rollout.max_turn_tokens}: a prompt of {prompt} "
            f"tokens and one turn need {need}, the context has {context}. "
            "Lower it, or raise --rollout.max_context."
        )


def _prompt(mixture: Mixture, task: Task, renderer: Renderer) -> int:
    env = mixture.make(task)
    return len(renderer.render(opening_of(env.system_prompt, task), env.tool_schemas()))


@contextmanager
def recorded(world: World) -> Iterator[dict[str, Any]]:
    """Keep run.json true: running inside the block, then how it ended."""
    outcome: dict[str, Any] = {"status": "failed"}
    note(world)
    try:
        yield outcome
    finally:
        with world.held:
            note(world, outcome["status"])


def note(world: World, status: str = "running") -> None:
    """Bring run.json up to date."""
    ended = None if status == "running" else _now()
    measured = world.measured
    heldout = dict(world.facts["heldout"])
    if 0 in measured:
        heldout["before"] = _heldout(measured[0])
    last = measured.get(world.standing.step)
    if world.standing.step and last is not None:
        heldout["after"] = _heldout(last)
    world.facts |= {"status": status, "ended": ended, "heldout": heldout}
    world.facts["seconds"] = world.seconds
    world.facts["tokens"] = dict(world.standing.tokens)
    world.facts["discarded"] = world.standing.discarded
    world.folder.write_run(world.facts)


def _heldout(found: Measurement) -> dict[str, Any] | None:
    if found.accuracy is None:
        return None
    told = {**found.accuracy.as_json(), "tasks": found.tasks, "k": found.k}
    return told | ({"by": found.by} if found.by else {})


def _facts(config: TrainConfig, engine: Engine, command: Sequence[str]) -> dict[str, Any]:
    return {
        "status": "running",
        "version": __version__,
        "command": shlex.join(command),
        "seed": config.train.seed,
        "started": _now(),
        "ended": None,
        "env": config.env.name,
        "model": config.model.name,
        "engine": engine.name,
        "n": config.select.n,
        "m": config.select.m,
        "heldout": {"before": None, "after": None},
        "python": platform.python_version(),
    }


def _restore(world: World) -> None:
    before, steps = world.folder.read_run(), world.config.train.steps
    found, warnings = resuming.newest(world.folder.checkpoints, before["status"], world.about)
    for text in warnings:
        world.emit(Warned(text))
    if found is not None:
        checkpoint.load(found, world.parts)
    # A run that ended between its last step and its last measurement still has that to do.
    if steps < world.standing.step or (steps == world.standing.step and before["status"] == "done"):
        raise UsageError(
            f"{world.folder.path}: it has done {world.standing.step} steps. "
            f"--steps {steps} asks for no more. Raise it."
        )
    if found is not None:
        checkpoint.put_away(found)
    world.folder.forget_after(world.standing.step)
    world.first_step = world.standing.step + 1
    world.standing.discarded += world.standing.ahead
    world.facts["started"] = before["started"]
    world.facts["heldout"] = {**before["heldout"], "after": None}


def _policy(config: TrainConfig) -> Policy:
    return load_policy(**config.model.model_dump(), seed=config.train.seed)


def _tasks(config: TrainConfig, mixture: Mixture) -> tuple[TaskSource, list[Task]]:
    """What is trained on and what is measured on; a first step is drawn, to see that it can be."""
    heldout = distinct(mixture.source("test"), config.heldout.tasks, mixture.name)
    source = mixture.source("train", heldout)
    if config.train.curriculum:
        refuse_without_levels(source)
    draw(source, Standing(), seed=config.train.seed, count=config.train.tasks_per_step)
    return source, heldout


def _engine(config: TrainConfig, policy: Policy) -> Engine:
    context, seed = config.rollout.max_context, config.train.seed
    ahead = config.train.max_staleness > 0
    room = room_of(config, policy.model) if build.resolve(config.engine.name) == "vllm" else None
    cache = None if room is None else room.cache_bytes
    folder, play = policy.folder, config.rollout
    return build.build(
        build.Order(config.engine, policy, folder, context, seed, ahead, play, cache)
    )


def _forecast(config: TrainConfig, policy: Policy) -> Forecast:
    """An engine in this process takes its share of the device first."""
    beside = build.resolve(config.engine.name) == "vllm" and policy.model.device.type == "cuda"
    return forecast_of(
        policy.model,
        config.model,
        config.update,
        engine_share=share_of(config, policy.model) if beside else 0.0,
        longest=config.rollout.max_context,
    )


def _learner(
    config: TrainConfig, policy: Policy, forecast: Forecast, parallel: Parallel
) -> Learner:
    u = config.update
    return Learner(
        policy.model,
        lr=u.lr,
        weight_decay=u.weight_decay,
        optimizer=u.optimizer,
        loss=u.loss,
        trust=Trust(u.clip_low, u.clip_high, u.tis_cap, u.mismatch_limit),
        grad_norm=u.grad_norm,
        tokens_per_micro_batch=forecast.cap,
        temperature=config.rollout.temperature,
        checkpointing=u.checkpointing,
        parallel=parallel,
        observe=forecast.observe,
    )


def _prefix(env: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in env.rsplit("/", 1)[-1]) or "run"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
