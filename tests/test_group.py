"""Episodes side by side: who plays when, who is played again, who is given up."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.effort import Effort, rollout_part
from agentrl.engines.scripted import ScriptedEngine
from agentrl.engines.wave import Waves
from agentrl.errors import EngineError, EnvironmentFault, UsageError
from agentrl.gate import Gate, Gates
from agentrl.group import play_groups
from agentrl.policy import Completion, Request
from agentrl.tooling import tool
from tests.doubles import ReadableTokenizer
from tests.steered import (
    HARD_LIMIT,
    Noted,
    SteeredEngine,
    call,
    members,
    seed_of,
    steered,
    tasks_of,
    until,
    world_of,
)


def talkative(turns):
    """A script in which an episode calls a tool until its last turn."""
    return lambda session, turn: call("look") if turn + 1 < turns(session) else f"{session}"


async def answer_all(engine, playing):
    while not playing.done():
        for session in engine.pending():
            engine.answer(session)
        await asyncio.sleep(0)


@settings(max_examples=25, deadline=None)
@given(
    tasks=st.integers(1, 3),
    n=st.integers(1, 4),
    max_live=st.integers(1, 5),
    requests=st.integers(0, 3),
    resets=st.integers(0, 2),
    seed=st.integers(0, 2**32),
)
def test_every_seat_is_played_once_within_the_limits_in_whatever_order_answers_come(
    tasks, n, max_live, requests, resets, seed
) -> None:
    chance = Random(seed)
    log: list[tuple[str, int]] = []
    turns = {(p, m): chance.randint(1, 3) for p in range(tasks) for m in range(n)}
    engine = SteeredEngine(talkative(turns.__getitem__), max_live=max_live)
    gates = Gates(requests=Gate(requests), resets=Gate(resets))

    async def answer_any(engine, playing):
        while not playing.done():
            if pending := engine.pending():
                engine.answer(chance.choice(pending))
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            alive = Counter(what for what, _ in log)
            assert alive["start"] - alive["release"] <= max_live

    world = world_of(engine, gates=gates)
    groups = steered(lambda task: Noted(log), world, answer_any, tasks=tasks, n=n)
    assert members(groups) == [list(range(n))] * tasks
    assert [[t.seed for t in g.trajectories] for g in groups] == [
        [100 * p + m for m in range(n)] for p in range(tasks)
    ]
    seeds = [seed_of(task, m) for task in tasks_of(tasks) for m in range(n)]
    for what in ("start", "reward", "release"):
        assert sorted(seed for event, seed in log if event == what) == seeds
    assert Counter(engine.finished) == Counter(turns.keys())
    assert {r.session: r.turn + 1 for r in engine.requests} == turns
    assert engine.most_asked <= min(max_live, requests or max_live)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_an_episode_draws_depends_on_who_it_is_never_on_when(seed) -> None:
    chance = Random(seed)

    async def answer_any(engine, playing):
        while not playing.done():
            if pending := engine.pending():
                engine.answer(chance.choice(pending))
            await asyncio.sleep(0)

    engine = SteeredEngine(talkative(lambda session: 3))
    steered(lambda task: Noted([]), world_of(engine), answer_any, tasks=2, n=2)
    found = {(r.session, r.turn): r.seed for r in engine.requests}
    straight = SteeredEngine(talkative(lambda session: 3))
    steered(lambda task: Noted([]), world_of(straight), answer_all, tasks=2, n=2)
    assert found == {(r.session, r.turn): r.seed for r in straight.requests}


def test_an_episode_is_played_scored_and_let_go_while_the_tool_of_another_is_busy():
    log: list[tuple[str, int]] = []
    back = asyncio.Event()

    class Busy(Noted):
        @tool
        async def look(self) -> str:
            """Look around."""
            self.note("look")
            if self.np_random_seed == 0:
                await back.wait()
            return "a lamp"

    async def other_first(engine, playing):
        await until(lambda: len(engine.pending()) == 2)
        engine.answer((0, 0))
        await until(lambda: ("look", 0) in log)
        for _ in range(2):
            await until(lambda: engine.pending() == [(0, 1)])
            engine.answer((0, 1))
        await until(lambda: ("release", 1) in log)
        assert ("reward", 1) in log
        back.set()
        await until(lambda: engine.pending() == [(0, 0)])
        engine.answer((0, 0))

    engine = SteeredEngine(talkative(lambda session: 2))
    groups = steered(lambda task: Busy(log), world_of(engine), other_first, n=2)
    assert groups[0].valid == [True, True]


def test_tasks_take_turns_so_the_first_one_keeps_no_other_waiting():
    made: list[str] = []

    def make(task):
        made.append(task.prompt)
        return Noted([])

    engine = SteeredEngine(talkative(lambda session: 1), max_live=1)
    steered(make, world_of(engine), answer_all, tasks=3, n=3)
    assert made == ["0", "1", "2"] * 3


def test_calls_of_all_episodes_together_stay_within_their_limit():
    inside, most = [0], [0]

    class Narrow(Noted):
        @tool
        async def look(self) -> str:
            """Look around."""
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            await asyncio.sleep(0.001)
            inside[0] -= 1
            return "a lamp"

    engine = SteeredEngine(lambda session, turn: "done" if turn else call("look") * 3)
    world = world_of(engine, gates=Gates(calls=Gate(2)))
    groups = steered(lambda task: Narrow([]), world, answer_all, tasks=2, n=3)
    assert most == [2]
    assert all(len(t.turns[0].outcomes) == 3 for g in groups for t in g.trajectories)


def test_a_call_that_waits_for_room_spends_none_of_its_time():
    class Patient(Noted):
        @tool(timeout=0.5)
        async def look(self) -> str:
            """Look around."""
            await asyncio.sleep(0.2)
            return "a lamp"

    engine = SteeredEngine(lambda session, turn: "done" if turn else call("look") * 4)
    world = world_of(engine, gates=Gates(calls=Gate(1)))
    groups = steered(lambda task: Patient([]), world, answer_all, n=1)
    outcomes = groups[0].trajectories[0].turns[0].outcomes
    assert [outcome.status for outcome in outcomes] == ["ok"] * 4


class Moody(Noted):
    """Its infrastructure fails so often for some members, then never again."""

    def __init__(self, log, failures):
        super().__init__(log)
        self._failures = failures

    async def reward(self, task, trajectory):
        self.note("reward")
        if self._failures.get(trajectory.seed, 0):
            self._failures[trajectory.seed] -= 1
            raise EnvironmentFault(f"try later, {trajectory.seed}")
        return 1.0


def moody(failures, **options):
    log: list[tuple[str, int]] = []
    made = []

    def make(task):
        made.append(Moody(log, failures))
        return made[-1]

    engine = SteeredEngine(talkative(lambda session: 1))
    groups = steered(make, world_of(engine, **options), answer_all, tasks=2, n=2)
    return groups, log, made


def test_a_broken_episode_is_played_again_on_a_fresh_environment_with_its_own_seed():
    groups, log, made = moody({1: 1, 100: 1})
    assert [g.valid for g in groups] == [[True, True], [True, True]]
    assert [g.effort.refilled for g in groups] == [("try later, 1",), ("try later, 100",)]
    assert len(made) == len({id(env) for env in made}) == 6
    assert Counter(seed for what, seed in log if what == "start") == {0: 1, 1: 2, 100: 2, 101: 1}


@pytest.mark.parametrize("refills", [0, 1, 3])
def test_what_never_works_is_given_up_after_so_many_tries(refills):
    groups, _, made = moody({1: 10**6}, max_refills=refills)
    assert groups[0].valid == [True, False]
    assert groups[0].trajectories[1].problem == "try later, 1"
    assert groups[0].effort.refilled == ("try later, 1",) * refills
    assert len(made) == 4 + refills


def test_only_the_later_members_are_played_where_the_first_ones_were():
    engine = SteeredEngine(talkative(lambda session: 1))
    groups = steered(lambda t: Noted([]), world_of(engine), answer_all, tasks=2, n=5, first=3)
    assert members(groups) == [[3, 4]] * 2
    assert [t.seed for t in groups[1].trajectories] == [103, 104]


async def answer_only(chosen, engine, playing):
    while not playing.done():
        for session in engine.pending():
            if session in chosen:
                engine.answer(session)
        await asyncio.sleep(0)


def test_a_group_is_complete_with_the_first_valid_ones_and_the_rest_is_given_up():
    log: list[tuple[str, int]] = []
    told = []
    engine = SteeredEngine(talkative(lambda session: 2))

    async def driver(engine, playing):
        await until(lambda: len(engine.pending()) == 4)
        engine.answer((0, 0))  # One turn of a straggler: its tokens count as begun.
        await until(lambda: ("look", 0) in log and (0, 0) in engine.pending())
        await answer_only({(0, 1), (0, 3)}, engine, playing)

    groups = steered(
        lambda task: Noted(log), world_of(engine), driver, n=2, spare=2, on_done=told.append
    )
    assert members(groups) == [[1, 3]]
    assert groups[0].valid == [True, True]
    assert sorted(engine.aborted) == [(0, 0), (0, 2)]
    assert sorted(engine.finished) == [(0, m) for m in range(4)]
    assert Counter(what for what, _ in log)["release"] == 4
    assert not engine.asked
    assert [t.member for t in told] in ([1, 3], [3, 1])
    cut = len(call("look")) + 1
    assert groups[0].effort.given_up == (cut, 0)
    row = rollout_part([(groups[0].trajectories, groups[0].effort)])
    kept = sum(t.num_trained_tokens for t in groups[0].trajectories)
    assert row["rollout/cancelled"] == 2
    assert row["rollout/length_bias"] == pytest.approx((kept / 2) / ((kept + cut) / 4))


class Stuck(Noted):
    """One episode of it never gets beyond a certain place, and all take their time to let go."""

    def __init__(self, log, where):
        super().__init__(log)
        self._where = where

    async def _here(self, where):
        self.note(where)
        if where == self._where and self.np_random_seed == 0:
            await asyncio.Event().wait()

    async def start(self, task):
        await self._here("start")

    @tool
    async def look(self) -> str:
        """Look around."""
        await self._here("look")
        return "a lamp"

    async def reward(self, task, trajectory):
        await self._here("reward")
        return 1.0

    async def release(self):
        self.note("letting go")
        await asyncio.sleep(0.5)
        self.note("let go")


@pytest.mark.parametrize("where", ["start", "look", "reward"])
def test_a_straggler_is_given_up_wherever_it_is_and_lets_go_in_peace(where):
    log: list[tuple[str, int]] = []

    async def driver(engine, playing):
        first = asyncio.create_task(answer_only({(0, 0)}, engine, playing))
        await until(lambda: (where, 0) in log)
        first.cancel()
        await answer_only({(0, 1)}, engine, playing)

    engine = SteeredEngine(talkative(lambda session: 2))
    groups = steered(lambda task: Stuck(log, where), world_of(engine), driver, n=1, spare=1)
    assert members(groups) == [[1]]
    assert ("let go", 0) in log
    assert len(groups[0].effort.given_up) == 1
    assert sorted(engine.finished) == [(0, 0), (0, 1)]


def test_a_seat_without_room_is_never_begun_when_its_group_is_complete():
    made = []

    def make(task):
        made.append(task)
        return Noted([])

    engine = SteeredEngine(talkative(lambda session: 1), max_live=1)
    groups = steered(make, world_of(engine), answer_all, n=2, spare=3)
    assert members(groups) == [[0, 1]]
    assert len(made) == 2
    assert groups[0].effort == Effort()


def test_a_group_that_never_completes_holds_the_valid_ones_and_as_many_broken_as_it_must():
    engine = SteeredEngine(talkative(lambda session: 1))
    failures = {0: 9, 2: 9, 3: 9}
    groups = steered(lambda task: Moody([], failures), world_of(engine), answer_all, n=2, spare=2)
    assert members(groups) == [[0, 1]]
    assert groups[0].valid == [False, True]
    assert len(groups[0].effort.given_up) == 2


def test_a_complete_group_ends_none_of_another_task():
    async def driver(engine, playing):
        await until(lambda: len(engine.pending()) == 4)
        engine.answer((0, 0))
        await until(lambda: engine.pending() == [(1, 0), (1, 1)])
        engine.answer((1, 1))

    engine = SteeredEngine(talkative(lambda session: 1))
    groups = steered(lambda task: Noted([]), world_of(engine), driver, tasks=2, n=1, spare=1)
    assert members(groups) == [[0], [1]]


def test_waves_have_no_spare_episodes():
    engine = SteeredEngine(talkative(lambda session: 1))
    engine.wave = True
    work = play_groups(
        lambda task: Noted([]), tasks_of(1), n=1, seed_of=seed_of, world=world_of(engine), spare=1
    )
    with pytest.raises(UsageError, match=r"--rollout\.oversample 1: in waves"):
        asyncio.run(work)


def test_an_engine_that_fails_ends_all_and_everything_is_let_go():
    log: list[tuple[str, int]] = []

    class Failing(SteeredEngine):
        async def generate(self, request: Request) -> Completion:
            if request.session == (0, 2):
                await until(lambda: len(self.asked) == 2)
                raise EngineError("out of memory")
            return await super().generate(request)

    async def nobody(engine, playing):
        await asyncio.wait([playing])

    engine = Failing(talkative(lambda session: 1))
    with pytest.raises(EngineError, match="out of memory"):
        steered(lambda task: Noted(log), world_of(engine), nobody, n=3)
    assert Counter(what for what, _ in log)["release"] == 3
    assert sorted(engine.finished) == [(0, 0), (0, 1), (0, 2)]


def test_everything_that_was_begun_counts_in_the_bias_and_waiting_for_all_has_none():
    assert rollout_part([]) == {
        "env/refills": 0,
        "rollout/cancelled": 0,
        "rollout/length_bias": None,
    }
    engine = SteeredEngine(talkative(lambda session: 1 + session[1]))
    groups = steered(lambda task: Noted([]), world_of(engine), answer_all, n=3)
    row = rollout_part([(g.trajectories, g.effort) for g in groups])
    assert row["rollout/length_bias"] == 1.0


def test_efforts_of_a_pilot_and_of_the_rest_add_up():
    assert Effort(("a",), (1,)) + Effort(("b",), (2, 3)) == Effort(("a", "b"), (1, 2, 3))


class WaveEngine(ScriptedEngine):
    """Answers in waves, and keeps who was in each."""

    wave = True

    def __init__(self, script, **options):
        super().__init__(ReadableTokenizer(), script, **options)
        self.batches: list[list[tuple[int, int]]] = []
        self._waves = Waves(self._answer)

    def episodes(self, sessions):
        return self._waves.episodes(sessions)

    def finish(self, session):
        super().finish(session)
        self._waves.finish(session)

    async def generate(self, request):
        return await self._waves.ask(request)

    async def _answer(self, requests):
        self.batches.append([r.session for r in requests])
        return [await ScriptedEngine.generate(self, r) for r in requests]


def in_waves(make, engine, *, tasks=1, n, **options):
    async def scene():
        async with asyncio.timeout(HARD_LIMIT):
            return await play_groups(
                make, tasks_of(tasks), n=n, seed_of=seed_of, world=world_of(engine, **options)
            )

    return asyncio.run(scene())


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_waves_hold_the_same_episodes_however_long_tools_take_and_broken_ones_come_last(seed):
    chance, failures = Random(seed), {1: 1, 101: 2}

    class Uneven(Moody):
        @tool
        async def look(self) -> str:
            """Look around."""
            await asyncio.sleep(chance.random() / 500)
            return "a lamp"

    engine = WaveEngine(talkative(lambda session: 1 + session[1]), max_live=3)
    groups = in_waves(lambda task: Uneven([], failures), engine, tasks=2, n=2, max_refills=2)
    assert [g.valid for g in groups] == [[True, True]] * 2
    assert [len(g.effort.refilled) for g in groups] == [1, 2]
    first = [[(0, 0), (0, 1), (1, 0)], [(0, 1)], [(1, 1)], [(1, 1)]]
    again = [[(0, 1), (1, 1)], [(0, 1), (1, 1)], [(1, 1)], [(1, 1)]]
    assert engine.batches == first + again


def test_no_wave_waits_for_the_reward_of_an_episode_that_has_no_more_to_say():
    over = asyncio.Event()

    class Judged(Noted):
        async def reward(self, task, trajectory):
            if len(trajectory.turns) == 1:
                await over.wait()
            else:
                over.set()
            return 1.0

    engine = WaveEngine(talkative(lambda session: 1 + session[1]))
    (group,) = in_waves(lambda task: Judged([]), engine, n=3)
    assert group.valid == [True] * 3
    assert engine.batches == [[(0, 0), (0, 1), (0, 2)], [(0, 1), (0, 2)], [(0, 2)]]
    assert sorted(engine.finished) == [(0, 0), (0, 1), (0, 2)]
