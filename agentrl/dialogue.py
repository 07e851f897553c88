"""Task → Trajectory through a chat endpoint: episode.py's sibling, without tokens.

In    an environment of its own, a task, an endpoint, limits
Out   Trajectory without token fields, and what the server counted
Not   exact in tokens: the context is what the server says it was, results are cut by characters
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentrl import calling, stage
from agentrl.chat import Reply, Talk, Usage, body_of, reply_of
from agentrl.endpoint import ContextFull, Endpoint, Filtered
from agentrl.env import ToolEnv
from agentrl.episode import Limits, Seat, turn_seed
from agentrl.errors import EnvironmentFault
from agentrl.message import AssistantTurn, Message
from agentrl.policy import Sampling
from agentrl.scoring import EpisodeEnd
from agentrl.trajectory import Stop, Trajectory

CHARACTERS = 4
"""Taken for each token of a tool result, where the model's tokens are not known."""


@dataclass(frozen=True, slots=True)
class Line:
    """What all episodes of an evaluation through an endpoint share."""

    endpoint: Endpoint
    model: str
    """As the server names it."""
    sampling: Sampling
    limits: Limits
    split: str = "test"
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class _Call:
    """How far an episode has come."""

    talk: Talk = field(default_factory=Talk)
    usage: Usage = field(default_factory=Usage)
    context: int = 0
    """Tokens of the conversation, as the server counted last."""
    turn: int = 0


async def converse(env: ToolEnv, seat: Seat, line: Line) -> tuple[Trajectory, dict[str, Any]]:
    """Play one episode to its end; also the fields that its line has from the server.

    Raises:
        UsageError: address, key or model are wrong.
        RunError: the server is down.
    """
    call, deadline = _Call(), line.clock() + line.limits.timeout
    end = EpisodeEnd(Stop.ENV_ERROR, problem="it was given up")
    try:
        end = await _converse(env, seat, line, call, deadline)
    except EnvironmentFault as fault:
        end = EpisodeEnd(stop=Stop.ENV_ERROR, problem=str(fault))
    finally:
        end = await stage.release(env, end, line.limits.timeout)
    trajectory = Trajectory(
        task=seat.task,
        member=seat.member,
        seed=seat.seed,
        opening=tuple(env.opening),
        turns=tuple(env.turns),
        stop=end.stop,
        reward=end.reward,
        reward_parts=end.parts,
        correct=end.correct,
        problem=end.problem,
    )
    return trajectory, _facts(call, line)


async def _converse(
    env: ToolEnv, seat: Seat, line: Line, call: _Call, deadline: float
) -> EpisodeEnd:
    most = CHARACTERS * line.limits.max_observation_tokens
    env.clip = lambda text: calling.clip(text, most)
    left, timeout = deadline - line.clock(), line.limits.timeout
    call.talk.hear(
        await stage.reset(env, seat.task, seat.seed, line.split, left=left, timeout=timeout)
    )
    while True:
        stop, room = _room(call, line)
        if stop is None and line.clock() > deadline:
            stop = Stop.TIMEOUT
        if stop is not None:
            return await stage.end(env, stop, (), timeout)
        try:
            reply = await _asked(env, seat, line, call, room)
        except ContextFull:
            return await stage.end(env, Stop.CONTEXT, (), timeout)
        try:
            news, *_ = await stage.within(deadline - line.clock(), env.astep(reply.turn))
        except TimeoutError:
            return await stage.end(env, Stop.TIMEOUT, (), timeout)
        if env.end is not None:
            return env.end
        _go_on(call, reply, news)


async def _asked(env: ToolEnv, seat: Seat, line: Line, call: _Call, room: int) -> Reply:
    body = body_of(
        line.endpoint.settings,
        line.model,
        call.talk,
        env.tool_schemas(),
        temperature=line.sampling.temperature,
        max_tokens=room,
        seed=turn_seed(seat.seed, call.turn),
    )
    try:
        answer, retries = await line.endpoint.chat(body)
    except Filtered:
        reply = Reply(AssistantTurn(""), (), Usage(requests=1, filtered=1), 0)
    else:
        reply = reply_of(answer, call.talk)
        reply = replace(reply, usage=replace(reply.usage, retries=retries))
    call.usage = call.usage.plus(reply.usage)
    call.context = reply.context
    return reply


def _go_on(call: _Call, reply: Reply, news: Sequence[Message]) -> None:
    call.talk.say(reply)
    call.talk.hear(news, reply.ids)
    call.turn += 1


def _room(call: _Call, line: Line) -> tuple[Stop | None, int]:
    """Tokens the next turn may take, or why there is no next turn."""
    limits = line.limits
    if call.context + limits.max_turn_tokens > limits.max_context:
        return Stop.CONTEXT, 0
    room = min(limits.max_turn_tokens, limits.max_tokens - call.usage.completion_tokens)
    return (None, room) if room > 0 else (Stop.MAX_TOKENS, 0)


def _facts(call: _Call, line: Line) -> dict[str, Any]:
    usage = call.usage
    counted = {name: getattr(usage, name) for name in Usage.__slots__}
    return {
        "tokens": call.context,
        "trained_tokens": usage.completion_tokens,
        "usage": {**counted, "cost": usage.cost(line.endpoint.settings)},
    }
