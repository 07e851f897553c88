"""What a turn costs its host: what is new in it, however many turns were before."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pytest

from agentrl.engines.scripted import ScriptedEngine
from agentrl.env import ToolEnv
from agentrl.episode import Limits, Play, Seat, play
from agentrl.policy import Completion, Request, Sampling
from agentrl.render import renderer_for
from agentrl.task import Task
from agentrl.tooling import tool
from agentrl.trajectory import Stop, Trajectory
from tests.doubles import ReadableTokenizer, forgetful_template, hermes_template
from tests.steered import call

TURNS = 64


class Long(ToolEnv):
    """It goes on for as long as one likes, and needs no threads: each call can be counted."""

    max_turns = 10**6
    max_tool_calls = 10**6

    @tool
    async def look(self, at: str) -> str:
        """Look at a thing."""
        return f"You see {at}."

    async def reward(self, task: Task, trajectory: Trajectory) -> float:
        return 1.0


class Talk(Long):
    """A user who never has enough."""

    async def reply(self, turn: Any) -> str:
        return "And then?"


class CountedTokenizer(ReadableTokenizer):
    """It counts the characters and ids that went through it."""

    def __init__(self, template: Any) -> None:
        super().__init__(template=template)
        self.work: Counter[str] = Counter()

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        self.work["encoded characters"] += len(text)
        return super().encode(text, add_special_tokens=add_special_tokens)

    def decode(self, token_ids: Any, *, skip_special_tokens: bool = False) -> str:
        self.work["decoded ids"] += len(token_ids)
        return super().decode(token_ids, skip_special_tokens=skip_special_tokens)

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> str:
        self.work["rendered messages"] += len(conversation)
        return super().apply_chat_template(conversation, **kwargs)


@dataclass
class Ledger:
    """Calls of functions, and what the tokenizer did, from one request to the next."""

    tokenizer: CountedTokenizer
    turns: list[Counter[str]] = field(default_factory=list)

    def count(self, frame: Any, event: str, arg: object) -> None:
        if event in ("call", "c_call"):
            self.tokenizer.work["calls"] += 1

    def next_turn(self) -> None:
        self.turns.append(Counter(self.tokenizer.work))
        self.tokenizer.work.clear()


class CountedEngine(ScriptedEngine):
    """It begins a new page of the ledger with each request."""

    ledger: Ledger

    async def generate(self, request: Request) -> Completion:
        sys.setprofile(None)
        self.ledger.next_turn()
        completion = await super().generate(request)
        sys.setprofile(self.ledger.count)
        return completion


def costs(env: ToolEnv, say: Callable[[int], str], template: Any) -> tuple[list[Counter[str]], Any]:
    """What each turn of a long episode cost, and the episode."""
    tokenizer = CountedTokenizer(template)
    engine = CountedEngine(tokenizer, lambda session, turn: say(turn), max_context=10**6)
    engine.ledger = Ledger(tokenizer)
    limits = Limits(max_turn_tokens=100, max_tokens=10**6, max_context=10**6)
    world = Play(engine, renderer_for(tokenizer), Sampling(), limits)
    env.max_turns = TURNS
    profile = sys.getprofile()
    try:
        found = asyncio.run(play(env, Seat(Task("Look."), 0, 0, 1), world))
    finally:
        sys.setprofile(profile)
    return engine.ledger.turns, found


CASES = {
    "a tool's results": (Long, lambda turn: call("look", at=f"thing {turn:03d}"), hermes_template),
    "a user's words": (Talk, lambda turn: f"Turn {turn:03d}.", hermes_template),
    "a template that drops earlier reasoning, and there is none": (
        Talk,
        lambda turn: f"Turn {turn:03d}.",
        forgetful_template,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_sixtieth_turn_costs_what_the_second_did(case):
    make, say, template = CASES[case]
    turns, found = costs(make(), say, template)
    assert (found.stop, len(found.turns), len(found.branches)) == (Stop.MAX_TURNS, TURNS, 1)
    assert turns[2]["encoded characters"] > 0
    for what in turns[2]:
        early, late = ([page[what] for page in turns[at : at + 9]] for at in (2, 54))
        # The event loop tidies its timers now and then. Of anything that is done once for each
        # turn before, there would be over fifty more.
        assert abs(median(late) - median(early)) < 10, what
