"""Task → Trajectory: one episode, played turn by turn.

In    an environment of its own, a task, an engine, a renderer, limits
Out   Trajectory: every token with its author, why it ended, what it earned
Not   retries and groups (group.py), nor any judgement of the policy's words (env.py)

Whose fault an end was is decided here once: the policy's (it is trained on), a limit's
(truncated), or infrastructure's (Stop.ENV_ERROR: excluded, never scored 0).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from agentrl import stage
from agentrl.answer import checked
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, RenderError, TurnLost
from agentrl.gate import Gates
from agentrl.message import Message
from agentrl.notice import GivenUp, Notice
from agentrl.policy import Completion, Engine, Request, Sampling
from agentrl.render import Renderer
from agentrl.scoring import EpisodeEnd
from agentrl.tape import Tape
from agentrl.task import Task
from agentrl.trajectory import Span, Stop, Trajectory, conversation


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
    gates: Gates = field(default_factory=Gates)
    max_refills: int = 1
    """How often an episode that infrastructure broke is played again."""
    learns: bool = False
    """Its tokens will be trained on: a turn without log-probs breaks its episode."""


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


def seed_from(*entropy: int) -> int:
    """A seed of 63 bits, which every engine takes, that depends on these numbers alone."""
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


def turn_seed(seed: int, turn: int) -> int:
    """Seed of one turn's draws: a function of the episode's seed and the turn alone."""
    return seed_from(seed, turn)


def once(fn: Callable[[], None]) -> Callable[[], None]:
    """A function that does it the first time only."""
    left = [fn]
    return lambda: left.pop()() if left else None


async def play(env: ToolEnv, seat: Seat, world: Play, notice: Notice | None = None) -> Trajectory:
    """Play one episode to its end, or until a notice says that nobody needs it.

    Raises:
        EngineError: the engine failed. A turn alone that was lost, and everything that the
            environment does wrong, is recorded in the trajectory instead.
    """
    tape, notice = Tape(), notice or Notice()
    leave = once(partial(world.engine.finish, seat.session))
    # Nobody who waits for its turns waits for its reward.
    env.ending = leave
    end = EpisodeEnd(Stop.ENV_ERROR, problem="it was given up")
    try:
        async with notice.heeded():
            end = await _play(_Table(env, seat, world, tape, notice))
    except (EnvironmentFault, TurnLost, GivenUp) as fault:
        end = EpisodeEnd(stop=Stop.ENV_ERROR, problem=str(fault))
    finally:
        leave()
        end = await stage.release(env, end, world.limits.timeout)
    return Trajectory(
        task=seat.task,
        member=seat.member,
        seed=seat.seed,
        opening=tuple(env.opening),
        turns=tuple(env.turns),
        stop=end.stop,
        branches=tuple(tape),
        reward=end.reward,
        reward_parts=end.parts,
        correct=end.correct,
        version=tape.version,
        problem=end.problem,
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """All that one episode is played with."""

    env: ToolEnv
    seat: Seat
    world: Play
    tape: Tape
    notice: Notice


async def _play(table: _Table) -> EpisodeEnd:
    env, world, tape = table.env, table.world, table.tape
    deadline = world.clock() + world.limits.timeout
    env.clip = lambda text: world.renderer.clip(text, world.limits.max_observation_tokens)
    env.slot = partial(world.gates.calls.at, table.seat.position)
    opening = await _reset(table, deadline)
    # The same for a whole episode: made once, not in each turn.
    tools = env.tool_schemas()
    tape.begin(world.renderer.render(opening, tools))
    turn = 0
    while True:
        table.notice.refuse_if_given()
        stop, room = _room(tape, world)
        if stop is None and world.clock() > deadline:
            stop = Stop.TIMEOUT
        if stop is not None:
            return await stage.end(env, stop, tape, world.limits.timeout)
        request = _request(table.seat, world, tape, room, turn)
        completion = await _said(table, request)
        tape.say(completion)
        assistant = world.renderer.parse(
            completion.ids, completion.finish_reason, tools, request.prompt_ids
        )
        try:
            step = env.astep(assistant, branches=tape)
            news, *_ = await stage.within(deadline - world.clock(), step)
        except TimeoutError:
            return await stage.end(env, Stop.TIMEOUT, tape, world.limits.timeout)
        if env.end is not None:
            return env.end
        _observe(table, tools, completion, news)
        turn += 1


async def _said(table: _Table, request: Request) -> Completion:
    world = table.world
    async with world.gates.requests.at(table.seat.position):
        completion = await world.engine.generate(request)
    return checked(completion, request, learns=world.learns)


async def _reset(table: _Table, deadline: float) -> Sequence[Message]:
    seat, world = table.seat, table.world
    async with world.gates.resets.at(seat.position):
        left = deadline - world.clock()
        timeout = world.limits.timeout
        return await stage.reset(
            table.env, seat.task, seat.seed, world.split, left=left, timeout=timeout
        )


def _room(tape: Tape, world: Play) -> tuple[Stop | None, int]:
    """Tokens the next turn may take, or why there is no next turn."""
    limits = world.limits
    if len(tape.ids) + limits.max_turn_tokens > min(limits.max_context, world.engine.max_context):
        return Stop.CONTEXT, 0
    room = min(limits.max_turn_tokens, limits.max_tokens - tape.sampled)
    return (None, room) if room > 0 else (Stop.MAX_TOKENS, 0)


def _request(seat: Seat, world: Play, tape: Tape, room: int, turn: int) -> Request:
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
    table: _Table,
    tools: Sequence[Mapping[str, Any]],
    completion: Completion,
    news: Sequence[Message],
) -> None:
    """Append what the environment said, or begin a branch where the template rewrites history.

    Raises:
        EnvironmentFault: the template takes neither; that ends this episode and no other.
    """
    env, renderer, tape = table.env, table.world.renderer, table.tape
    try:
        suffix = renderer.extend(
            tape.ids,
            completion.finish_reason,
            news,
            sampled=len(completion.ids),
            searched=tape.searched,
        )
    except RenderError:
        suffix = None
    if suffix is None:
        history = conversation(env.opening, env.turns)
        try:
            tape.begin(renderer.render(history, tools))
        except RenderError as error:
            raise EnvironmentFault(f"the conversation cannot go on: {error}") from error
    else:
        tape.searched = suffix.searched
        tape.add(Span("scaffold", suffix.scaffold), Span("observation", suffix.observation))
