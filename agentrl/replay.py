"""A recorded line → the Trajectory that it was, and the same turns played once more.

In    a line of episodes, its task
Out   Trajectory without token fields; an episode's end under the environment as it is now
Not   what a line does not say: lines of older runs have no status of calls, and those count as ok
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrl.env import ToolEnv
from agentrl.message import AssistantTurn, FinishReason, Message, ToolCall, ToolOutcome, Turn
from agentrl.scoring import EpisodeEnd
from agentrl.task import Task
from agentrl.trajectory import Stop, Trajectory

_CLIPPED = "left out ...]"


def trajectory_of(row: Mapping[str, Any], task: Task) -> Trajectory:
    """The episode that a line tells of.

    Raises:
        ValueError, KeyError, TypeError: it is no episode's.
    """
    messages: list[Message] = row["messages"]
    starts = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    if int(row["turns"]) > len(starts):
        raise ValueError(f"{row['turns']} turns, and {len(starts)} messages of the policy")
    starts = starts[len(starts) - int(row["turns"]) :]
    ends = [*starts[1:], len(messages)]
    known = row.get("outcomes") or [None] * len(starts)
    stop = Stop(row["stop"])
    turns = [
        _turn(messages[start:end], told, stop if end == len(messages) else None)
        for start, end, told in zip(starts, ends, known, strict=True)
    ]
    return Trajectory(
        task=task,
        member=int(row["member"]),
        seed=int(row.get("seed", 0)),
        opening=tuple(messages[: starts[0]] if starts else messages),
        turns=tuple(turns),
        stop=stop,
        reward=row["reward"],
        reward_parts=row.get("reward_parts"),
        correct=row.get("correct"),
        version=int(row.get("version", 0)),
        problem=str(row.get("problem", "")),
    )


def _turn(
    messages: Sequence[Message], told: Sequence[Mapping[str, Any]] | None, last: Stop | None
) -> Turn:
    said, *news = messages
    results = [m for m in news if m["role"] == "tool"]
    replies = [m["content"] for m in news if m["role"] == "user"]
    facts: Sequence[Mapping[str, Any]] = told if told else [{}] * len(results)
    outcomes = tuple(
        ToolOutcome(
            result.get("name", ""),
            result["content"],
            fact.get("status", "ok"),
            float(fact.get("reward", 0.0)),
        )
        for result, fact in zip(results, facts, strict=False)
    )
    cut = last is Stop.MAX_TOKENS and not outcomes
    reason: FinishReason = "length" if cut else "stop"
    turn = AssistantTurn(
        said["content"],
        tuple(_calls(said, outcomes)),
        said.get("reasoning_content", ""),
        reason,
    )
    return Turn(turn, outcomes, replies[0] if replies else None)


def _calls(said: Message, outcomes: Sequence[ToolOutcome]) -> Iterator[ToolCall]:
    """Sound calls are in the message; malformed ones are known by their outcomes."""
    sound = iter(said.get("tool_calls", ()))
    for outcome in outcomes:
        if outcome.status == "malformed":
            problem = outcome.content.removeprefix("malformed call: ")
            yield ToolCall(outcome.name, {}, problem)
        elif (call := next(sound, None)) is not None:
            yield ToolCall(call["function"]["name"], call["function"]["arguments"])
    for call in sound:
        yield ToolCall(call["function"]["name"], call["function"]["arguments"])


async def replayed(env: ToolEnv, old: Trajectory, split: str) -> tuple[EpisodeEnd, bool]:
    """Play the same turns again: how it ends now, and whether the environment said the same.

    Raises:
        EnvironmentFault: `start` broke.
    """
    try:
        await env.areset(seed=old.seed, options={"task": old.task, "split": split})
        for turn in old.turns:
            if env.end is not None or _unfinished(turn, old):
                break
            await env.astep(turn.assistant)
        end = env.end or await env.aend(old.stop)
        return end, list(map(_said, env.turns)) == list(map(_said, old.turns)) or _alike(env, old)
    finally:
        await env.arelease()


def _unfinished(turn: Turn, old: Trajectory) -> bool:
    """The time was up while its calls ran: they are not run again."""
    return old.stop is Stop.TIMEOUT and bool(turn.calls) and not turn.outcomes


def _said(turn: Turn) -> tuple[Any, ...]:
    return (*((o.status, o.content) for o in turn.outcomes), turn.reply)


def _alike(env: ToolEnv, old: Trajectory) -> bool:
    """Whether all that differs is a result that had been shortened."""
    if len(env.turns) != len(old.turns):
        return old.stop is Stop.TIMEOUT
    for mine, theirs in zip(env.turns, old.turns, strict=True):
        if mine.reply != theirs.reply or len(mine.outcomes) != len(theirs.outcomes):
            return False
        for one, other in zip(mine.outcomes, theirs.outcomes, strict=True):
            if one.content != other.content and _CLIPPED not in other.content:
                return False
    return True
