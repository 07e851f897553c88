"""A played conversation against the gold calls, as the leaderboard's own checker compares them.

In    an Entry, the turns of an episode
Out   which of the user's turns were answered right, in state and in responses
Not   the instances that were played with: both sides are run anew, so saved episodes can be scored
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.errors import BadArguments
from agentrl.message import Turn
from agentrl_environments._bfcl_data import Entry
from agentrl_environments._bfcl_world import FAILED, World

MAX_STEPS = 21
"""Turns with calls that may answer one turn of the user; those of later ones are not run.

The leaderboard's limit is called 20, and stops a policy after one more.
"""
Call = tuple[str, Mapping[str, Any]]


def steps(turns: Sequence[Turn]) -> int:
    """Turns with calls since the user last spoke."""
    return len(by_question(turns)[-1])


def by_question(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Turns with calls, for each turn of the user that has begun."""
    found: list[list[Turn]] = [[]]
    for turn in turns:
        if turn.calls:
            found[-1].append(turn)
        elif turn.reply is not None:
            found.append([])
    return found


def answered(turns: Sequence[Turn]) -> list[list[Call]]:
    """Sound calls that got an answer, for each turn of the user that has begun."""
    return [
        [
            (call.name, call.arguments)
            for turn in question[:MAX_STEPS]
            for call, _ in zip(turn.calls, turn.outcomes, strict=False)
            if call.problem is None
        ]
        for question in by_question(turns)
    ]


def right_turns(entry: Entry, calls: Sequence[Sequence[Call]]) -> list[bool]:
    """For each turn of the user, whether its check holds; the episode is right if all do.

    A turn of the user that was not reached is wrong. One without gold calls is right whatever
    was called, as long as it leaves the state of the next ones right: that is how the
    leaderboard counts.

    Args:
        entry: The conversation.
        calls: The policy's, for each turn of the user.
    """
    ours, gold = World(entry), World(entry)
    found: list[bool] = []
    responses: Counter[str] = Counter()
    for index, due in enumerate(entry.gold):
        if index >= len(calls):
            found.append(False)
            continue
        responses.update(_said(ours, name, arguments) for name, arguments in calls[index])
        wanted = Counter(gold.run(call.name, call.arguments(gold.order(call.name))) for call in due)
        called = bool(calls[index]) and ours.same(gold)
        # What was learned in an earlier turn need not be asked for again.
        found.append(not due or (called and wanted <= responses))
    return found


def _said(world: World, name: str, arguments: Mapping[str, Any]) -> str:
    """What a call returns; one that is refused in the episode fails here as well."""
    try:
        return world.run(name, arguments)
    except BadArguments as error:
        return FAILED + str(error)
