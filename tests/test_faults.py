"""Whatever breaks ends in the documented way, in time, with its cause, and trains nothing wrong."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from dataclasses import replace

import pytest

from agentrl.effort import rollout_part
from agentrl.engines.scripted import ScriptedEngine
from agentrl.episode import Limits
from agentrl.errors import EngineError, EnvironmentFault, TurnLost
from agentrl.group import play_groups
from agentrl.policy import Completion
from agentrl.tooling import tool
from agentrl.trajectory import Stop
from tests.doubles import ReadableTokenizer
from tests.steered import HARD_LIMIT, Noted, call, seed_of, tasks_of, world_of


class Faulty(Noted):
    """It breaks where it is told to, for members with an odd number; others are fine."""

    def __init__(self, log, where, how):
        super().__init__(log)
        self._where, self._how = where, how

    async def _break(self, here):
        self.note(here)
        if here == self._where and self.np_random_seed % 2:
            await self._how()

    async def start(self, task):
        await self._break("start")

    @tool(timeout=60)
    async def look(self) -> str:
        """Look around."""
        await self._break("look")
        return "a lamp"

    async def reward(self, task, trajectory):
        await self._break("reward")
        return 1.0

    async def release(self):
        await self._break("release")


async def raises():
    raise EnvironmentFault("no database")


async def crashes():
    raise ConnectionError("no database")


async def never():
    await asyncio.Event().wait()


def script(session, turn):
    return "done" if turn else call("look")


def play(make, *, n=4, engine=None, limits=None, **options):
    """One group, under a hard limit of time."""
    engine = engine or ScriptedEngine(ReadableTokenizer(), script)
    world = world_of(engine, limits=limits or Limits(), **options)

    async def scene():
        async with asyncio.timeout(HARD_LIMIT):
            return await play_groups(make, tasks_of(1), n=n, seed_of=seed_of, world=world)

    (group,) = asyncio.run(scene())
    return group


@pytest.mark.parametrize("how", [raises, crashes])
@pytest.mark.parametrize("where", ["start", "reward", "release"])
def test_an_environment_that_raises_breaks_its_own_episodes_and_says_why(where, how):
    log = []
    group = play(lambda task: Faulty(log, where, how))
    assert group.valid == [True, False, True, False]
    for t in group.trajectories[1::2]:
        assert (t.stop, t.reward) == (Stop.ENV_ERROR, None)
        assert "no database" in t.problem
    assert len(group.effort.refilled) == 2
    assert all("no database" in problem for problem in group.effort.refilled)
    assert rollout_part([(group.trajectories, group.effort)])["env/refills"] == 2
    assert [seed for what, seed in log if what == "release"].count(1) == 2


def test_an_environment_that_cannot_be_made_says_why():
    def make(task):
        raise OSError("no such disk")

    group = play(make, n=2)
    assert group.valid == [False, False]
    assert "making the environment: OSError: no such disk" in group.trajectories[0].problem


def test_a_tool_that_says_it_is_the_infrastructures_fault_breaks_the_episode():
    group = play(lambda task: Faulty([], "look", raises))
    assert group.valid == [True, False, True, False]
    assert "no database" in group.trajectories[1].problem


def test_a_tool_that_crashes_is_told_to_the_policy_and_the_episode_counts():
    group = play(lambda task: Faulty([], "look", crashes))
    assert group.valid == [True] * 4
    outcome = group.trajectories[1].turns[0].outcomes[0]
    assert outcome.status == "error"
    assert "no database" in outcome.content
    assert group.effort.refilled == ()


@pytest.mark.parametrize(
    ("where", "said"), [("start", "reset took over"), ("release", "release took too long")]
)
def test_what_never_returns_breaks_its_episode_when_the_time_is_up(where, said):
    limits = Limits(timeout=0.2)
    group = play(lambda task: Faulty([], where, never), n=2, limits=limits, max_refills=0)
    assert group.valid == [True, False]
    assert said in group.trajectories[1].problem


def test_a_reward_that_never_comes_breaks_its_episode():
    limits = Limits(timeout=0.2)
    group = play(lambda task: Faulty([], "reward", never), n=2, limits=limits, max_refills=0)
    assert group.valid == [True, False]
    assert "reward took over" in group.trajectories[1].problem


def test_an_environment_that_is_never_made_breaks_its_episode():
    over = threading.Event()

    def make(task):
        over.wait()
        return Noted([])

    try:
        group = play(make, n=2, limits=Limits(timeout=0.2), max_refills=0)
    finally:
        over.set()
    assert group.valid == [False, False]
    assert "making the environment took over" in group.trajectories[0].problem


class Silent(Noted):
    """Tools that never come back."""

    def __init__(self, over, log):
        super().__init__(log)
        self._over = over

    @tool(timeout=0.1)
    def blocks(self) -> str:
        """Wait in a thread."""
        self._over.wait()
        return "late"

    @tool(timeout=0.1)
    async def sleeps(self) -> str:
        """Wait on the loop."""
        await asyncio.Event().wait()
        return "late"

    @tool(timeout=0.1)
    async def deaf(self) -> str:
        """Wait, and never listen."""
        while not self._over.is_set():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue
        return "late"


@pytest.mark.parametrize("name", ["blocks", "sleeps", "deaf"])
def test_a_tool_that_never_returns_costs_its_own_time_and_no_more(name):
    over = threading.Event()
    engine = ScriptedEngine(
        ReadableTokenizer(), lambda session, turn: "done" if turn else call(name)
    )
    try:
        group = play(lambda task: Silent(over, []), n=3, engine=engine)
    finally:
        over.set()
    assert group.valid == [True] * 3
    for t in group.trajectories:
        assert t.turns[0].outcomes[0].status == "timeout"
        assert t.stop is Stop.ANSWER


def test_an_episode_whose_tool_has_more_time_than_the_episode_is_truncated_and_scored():
    group = play(lambda task: Faulty([], "look", never), n=2, limits=Limits(timeout=0.3))
    assert [t.stop for t in group.trajectories] == [Stop.ANSWER, Stop.TIMEOUT]
    assert group.valid == [True, True]


class Spoiling(ScriptedEngine):
    """What it says to each member with an odd number is spoilt, so many times."""

    def __init__(self, spoil, times=10**6):
        super().__init__(ReadableTokenizer(), script)
        self._spoil, self._times = spoil, times
        self._spoilt = Counter()

    async def generate(self, request):
        completion = await super().generate(request)
        if request.session[1] % 2 and request.turn and self._spoilt[request.session] < self._times:
            self._spoilt[request.session] += 1
            return self._spoil(completion)
        return completion


def aborted(completion: Completion) -> Completion:
    raise TurnLost("the server dropped it")


SPOILT = {
    "no log-probs": (lambda c: replace(c, logprobs=None), "gave no log-probs"),
    "too few": (lambda c: replace(c, logprobs=c.logprobs[1:]), "5 sampled ids but 4 log-probs"),
    "not numbers": (lambda c: replace(c, logprobs=(math.nan,) * len(c.ids)), "no finite numbers"),
    "an abort": (lambda c: replace(c, finish_reason="abort"), "'abort'"),
    "nothing": (lambda c: replace(c, ids=(), logprobs=()), "no token was sampled"),
    "a turn that is lost": (aborted, "the server dropped it"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_an_answer_that_cannot_be_trained_on_is_left_out_with_its_cause(how):
    spoil, said = SPOILT[how]
    group = play(lambda task: Noted([]), engine=Spoiling(spoil), learns=True)
    assert group.valid == [True, False, True, False]
    for t in group.trajectories[1::2]:
        assert t.stop is Stop.ENV_ERROR
        assert said in t.problem
        assert t.reward is None
    assert len(group.effort.refilled) == 2
    for t in group.trajectories:
        pairs = zip(t.loss_mask, t.logprobs, strict=True)
        assert all(math.isfinite(logprob) for mask, logprob in pairs if mask)


@pytest.mark.parametrize("how", SPOILT)
def test_an_answer_that_was_spoilt_once_is_asked_for_again(how):
    engine = Spoiling(SPOILT[how][0], times=1)
    group = play(lambda task: Noted([]), engine=engine, learns=True)
    assert group.valid == [True] * 4
    assert len(group.effort.refilled) == 2


def test_where_nothing_is_learned_log_probs_may_be_missing():
    for how in ("no log-probs", "not numbers"):
        group = play(lambda task: Noted([]), engine=Spoiling(SPOILT[how][0]))
        assert group.valid == [True] * 4


def test_an_engine_that_fails_as_a_whole_ends_the_play():
    def fails(completion):
        raise EngineError("out of memory")

    with pytest.raises(EngineError, match="out of memory"):
        play(lambda task: Noted([]), engine=Spoiling(fails))
