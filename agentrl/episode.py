"""Task → Trajectory: one episode, played turn by turn.

In    an environment of its own, a task, an engine, a renderer, limits
Out   Trajectory: every token with its author, why it ended, what it earned
Not   retries and groups (group.py), nor any judgement of the policy's words (env.py)

Whose fault an end was is decided here once: the policy's (it is trained on), a limit's
(truncated), or infrastructure's (Stop.ENV_ERROR: excluded, never scored 0).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, RenderError
from agentrl.message import Message
from agentrl.policy import Completion, Engine, Request, Sampling
from agentrl.render import Renderer
from agentrl.scoring import EpisodeEnd
from agentrl.task import Task
from agentrl.trajectory import Branch, Span, Stop, Trajectory, conversation

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """What an episode may use; every budget has its own name."""

    max_turn_tokens: int = 512
    """Tokens sampled in one turn."""
    max_tokens: int = 4096
    """Tokens sampled in the episode."""
    max_context: int = 8192
    """Prompt and completion together; a turn that may not fit is not begun."""
    max_observation_tokens: int = 2048
    """Tokens of one tool result."""
    timeout: float = 600.0
    """Seconds of the whole episode."""


@dataclass(frozen=True, slots=True)
class Play:
    """What all episodes of a phase share."""

    engine: Engine
    renderer: Renderer
    sampling: Sampling
    limits: Limits
    split: str = "train"
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class Seat:
    """One episode to be played: which task, which member of its group, which seed."""

    task: Task
    position: int
    """Position of the task in its step: with `member`, the session's name."""
    member: int
    seed: int

    @property
    def session(self) -> tuple[int, int]:
        """How the engine knows this episode."""
        return (self.position, self.member)


@dataclass(slots=True)
class _Tape:
    """What has been recorded so far; grows only at its end."""

    past: tuple[Branch, ...] = ()
    branch: Branch = field(default_factory=Branch)
    sampled: int = 0
    version: int = 0
    ids: list[int] = field(default_factory=list)

    @property
    def branches(self) -> tuple[Branch, ...]:
        return (*self.past, self.branch) if self.branch.spans else self.past

    def begin(self, ids: Sequence[int]) -> None:
        """Start a branch with a prompt; a branch before it stays as it is."""
        self.past = self.branches
        self.branch = Branch()
        self.ids = []
        self.add(Span("prompt", tuple(ids)))

    def add(self, *spans: Span) -> None:
        self.branch = self.branch.plus(*spans)
        for span in spans:
            self.ids.extend(span.ids)

    def say(self, completion: Completion) -> None:
        if not self.sampled:
            self.version = completion.version
        self.sampled += len(completion.ids)
        self.add(Span("sampled", completion.ids, completion.logprobs))


def seed_from(*entropy: int) -> int:
    """A seed of 63 bits, which every engine takes, that depends on these numbers alone."""
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


def turn_seed(seed: int, turn: int) -> int:
    """Seed of one turn's draws: a function of the episode's seed and the turn alone."""
    return seed_from(seed, turn)


async def play(env: ToolEnv, seat: Seat, world: Play) -> Trajectory:
    """Play one episode to its end.

    Raises:
        EngineError: the engine failed; everything the environment does wrong is recorded
            in the trajectory instead.
    """
    tape, deadline = _Tape(), world.clock() + world.limits.timeout
    end = EpisodeEnd(Stop.ENV_ERROR, problem="it was given up")
    try:
        end = await _play(env, seat, world, tape, deadline)
    except EnvironmentFault as fault:
        end = EpisodeEnd(stop=Stop.ENV_ERROR, problem=str(fault))
    finally:
        world.engine.finish(seat.session)
        end = await _release(env, world, end)
    return Trajectory(
        task=seat.task,
        member=seat.member,
        seed=seat.seed,
        opening=tuple(env.opening),
        turns=tuple(env.turns),
        stop=end.stop,
        branches=tape.branches,
        reward=end.reward,
        reward_parts=end.parts,
        correct=end.correct,
        version=tape.version,
        problem=end.problem,
    )


async def _play(env: ToolEnv, seat: Seat, world: Play, tape: _Tape, deadline: float) -> EpisodeEnd:
    options = {"task": seat.task, "split": world.split}
    env.clip = lambda text: world.renderer.clip(text, world.limits.max_observation_tokens)
    opening = await _reset(env, seat, world, options, deadline)
    tape.begin(world.renderer.render(opening, env.tool_schemas()))
    turn = 0
    while True:
        stop, room = _room(tape, world)
        if stop is None and world.clock() > deadline:
            stop = Stop.TIMEOUT
        if stop is not None:
            return await _end(env, world, stop, tape)
        request = _request(seat, world, tape, room, turn)
        completion = await world.engine.generate(request)
        tape.say(completion)
        assistant = world.renderer.parse(
            completion.ids, completion.finish_reason, env.tool_schemas(), request.prompt_ids
        )
        try:
            news, *_ = await _within(deadline, world, env.astep(assistant, branches=tape.branches))
        except TimeoutError:
            return await _end(env, world, Stop.TIMEOUT, tape)
        if env.end is not None:
            return env.end
        _observe(env, world.renderer, tape, completion, news)
        turn += 1


async def _reset(
    env: ToolEnv, seat: Seat, world: Play, options: dict[str, object], deadline: float
) -> Sequence[Message]:
    try:
        opening, _ = await _within(deadline, world, env.areset(seed=seat.seed, options=options))
    except TimeoutError:
        raise EnvironmentFault(f"reset took over {world.limits.timeout} s") from None
    return opening


async def _release(env: ToolEnv, world: Play, end: EpisodeEnd) -> EpisodeEnd:
    """Let go of what the episode held; where that breaks, the next episode cannot be trusted."""
    try:
        await asyncio.wait_for(env.arelease(), world.limits.timeout)
    except (EnvironmentFault, TimeoutError) as fault:
        return EpisodeEnd(stop=Stop.ENV_ERROR, problem=str(fault) or "release took too long")
    return end


async def _end(env: ToolEnv, world: Play, stop: Stop, tape: _Tape) -> EpisodeEnd:
    try:
        return await asyncio.wait_for(env.aend(stop, branches=tape.branches), world.limits.timeout)
    except TimeoutError:
        raise EnvironmentFault(f"reward took over {world.limits.timeout} s") from None


def _room(tape: _Tape, world: Play) -> tuple[Stop | None, int]:
    """Tokens the next turn may take, or why there is no next turn."""
    limits = world.limits
    if len(tape.ids) + limits.max_turn_tokens > min(limits.max_context, world.engine.max_context):
        return Stop.CONTEXT, 0
    room = min(limits.max_turn_tokens, limits.max_tokens - tape.sampled)
    return (None, room) if room > 0 else (Stop.MAX_TOKENS, 0)


def _request(seat: Seat, world: Play, tape: _Tape, room: int, turn: int) -> Request:
    return Request(
        prompt_ids=tuple(tape.ids),
        max_tokens=room,
        stop_token_ids=world.renderer.stop_token_ids,
        sampling=world.sampling,
        seed=turn_seed(seat.seed, turn),
        session=seat.session,
        turn=turn,
    )


def _observe(
    env: ToolEnv,
    renderer: Renderer,
    tape: _Tape,
    completion: Completion,
    news: Sequence[Message],
) -> None:
    """Append what the environment said, or begin a branch where the template rewrites history.

    Raises:
        EnvironmentFault: the template takes neither; that ends this episode and no other.
    """
    try:
        suffix = renderer.extend(tape.ids, completion.finish_reason, news)
    except RenderError:
        suffix = None
    if suffix is None:
        history = conversation(env.opening, env.turns)
        try:
            tape.begin(renderer.render(history, env.tool_schemas()))
        except RenderError as error:
            raise EnvironmentFault(f"the conversation cannot go on: {error}") from error
    else:
        tape.add(Span("scaffold", suffix.scaffold), Span("observation", suffix.observation))


async def _within(deadline: float, world: Play, work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, max(0.001, deadline - world.clock()))
