"""Training with steps played ahead: what it promises, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrl import disk
from agentrl.checkpoint import find
from agentrl.chosen import choose, samples
from agentrl.engines.scripted import ScriptedEngine
from agentrl.errors import EngineError, RunError
from agentrl.events import Measured, Stepped
from agentrl.group import seed_for
from agentrl.playing import play_step
from agentrl.policy import Completion, Request, WeightSource
from agentrl.training import as_played, begin, step, train
from agentrl.world import World, prepare
from tests.test_training import ENVIRONMENTS, figures, settings, weights

HELD = '''

class Held(Lengths):
    """Says in a file when it begins and when it is let go."""

    def start(self, task):
        self.note("begun")

    def release(self):
        self.note("released")

    def note(self, what):
        import pathlib

        with (pathlib.Path(__file__).parent / "held.txt").open("a") as file:
            file.write(what + "\\n")
'''


@pytest.fixture
def environment(tmp_path: Path) -> Callable[[str], str]:
    path = tmp_path / "envs.py"
    path.write_text(ENVIRONMENTS + HELD)
    return lambda name: f"{path}:{name}"


def ahead(out: Path, env: str, limit: int = 1, **changes: Any) -> Any:
    """Settings of a run that plays so many steps ahead."""
    own = {"max_staleness": limit, "steps": 4, **changes.pop("train", {})}
    return settings(out, env, train=own, **changes)


def order(run: Path) -> list[list[tuple[str, int]]]:
    """Task and seed of every trajectory, step by step."""
    return [
        [(row["task_id"], row["seed"]) for row in disk.rows(path)]
        for path in sorted((run / "groups").iterdir())
    ]


def metrics(run: Path) -> list[dict[str, Any]]:
    return list(disk.rows(run / "metrics.jsonl"))


def learned(run: Path) -> list[dict[str, Any]]:
    """Figures of every step but the engine's, which counts what was played while it lasted."""
    return [
        {name: value for name, value in row.items() if not name.startswith("engine/")}
        for row in figures(run)
    ]


def test_one_step_ahead_repeats_to_the_bit_and_draws_what_the_synchronous_run_draws(
    tmp_path, environment
):
    for name, limit in (("one", 1), ("two", 1), ("none", 0)):
        train(ahead(tmp_path, environment("Lengths"), limit, run={"name": name}))
    one, two, none = (tmp_path / name for name in ("one", "two", "none"))
    assert learned(one) == learned(two)
    assert weights(one) == weights(two)
    assert order(one) == order(none)
    assert weights(one) != weights(none)
    assert [row["stale/max"] for row in metrics(one)] == [0, 1, 1, 1]
    assert [row["stale/max"] for row in metrics(none)] == [0, 0, 0, 0]
    assert [row["stale/dropped"] for row in metrics(one)] == [0, 0, 0, 0]
    for number, path in enumerate(sorted((one / "groups").iterdir()), 1):
        assert {row["version"] for row in disk.rows(path)} == {max(0, number - 2)}


def test_with_nothing_allowed_ahead_it_is_a_plain_loop_to_the_bit(tmp_path, environment):
    """Play, choose, learn, hand over, written out: no pipeline, no lock, no thread."""
    env = environment("Lengths")
    train(ahead(tmp_path, env, 0, run={"name": "run"}))
    world = prepare(ahead(tmp_path, env, 0, run={"name": "plain"}), None, {}, (), ())
    standing, seed = world.standing, world.config.train.seed

    async def loop() -> None:
        await world.engine.load(world.weights, 0)
        for number in range(1, 5):
            played = await play_step(world, standing, number)
            s = world.config.select
            chosen = choose(
                played.groups,
                s.question(world.learner.cap),
                stats=s.stats,
                loss=world.config.update.loss,
                seed=seed_for(seed, number, "0", 0),
            )
            if rows := samples(chosen):
                world.learner.step(rows, len(chosen.kept))
                standing.version += 1
                await world.engine.load(world.weights, standing.version)
        await world.engine.close()

    asyncio.run(loop())
    world.policy.save(tmp_path / "plain" / "policy")
    world.held.close()
    plain = (tmp_path / "plain" / "policy" / "model.safetensors").read_bytes()
    assert standing.version > 1
    assert weights(tmp_path / "run", 4) == plain


def test_the_synchronous_run_does_not_wait_beside_play(tmp_path, environment):
    train(ahead(tmp_path, environment("Lengths"), 0, train={"steps": 2}))
    for row in metrics(tmp_path / "run"):
        assert row["time/idle_learner"] >= row["time/rollout"] > 0
        assert row["time/idle_engine"] >= row["time/update"]


def test_an_evaluation_is_of_one_version_and_play_goes_on_after_it(tmp_path, environment):
    config = ahead(tmp_path, environment("Lengths"), 2, train={"eval_every": 1, "steps": 4})
    train(config)
    run = tmp_path / "run"
    for number in range(5):
        rows = list(disk.rows(run / "heldout" / f"{number:06d}.jsonl"))
        assert {row["version"] for row in rows} == {number}
    assert max(row["stale/max"] for row in metrics(run)) <= 2


def test_an_interrupted_run_saves_and_goes_on_with_the_same_tasks(tmp_path, environment):
    def interrupt(event: object) -> None:
        if isinstance(event, Stepped):
            os.kill(os.getpid(), signal.SIGINT)

    env = environment("Held")
    train(ahead(tmp_path, env, run={"name": "straight"}))
    held = tmp_path / "held.txt"
    held.unlink()
    config = ahead(tmp_path, env, run={"name": "broken"})
    stopped = train(config, listeners=[interrupt])
    assert (stopped.status, stopped.steps) == ("stopped", 1)
    notes = held.read_text().split()
    assert notes.count("begun") == notes.count("released") > 0
    broken = tmp_path / "broken"
    saved = find(broken / "checkpoints") / "standing" / "standing.json"
    assert json.loads(saved.read_text())["ahead"] == 1
    again = train(config, resume="broken")
    assert (again.status, again.steps) == ("done", 4)
    assert order(broken) == order(tmp_path / "straight")
    assert json.loads((broken / "run.json").read_text())["discarded"] == 1


def test_a_run_resumed_late_goes_on_at_once(tmp_path, environment):
    config = ahead(tmp_path, environment("Lengths"), 3, train={"steps": 7})
    train(config)
    longer = ahead(tmp_path, environment("Lengths"), 3, train={"steps": 9})
    assert train(longer, resume="run").steps == 9
    assert max(row["stale/max"] for row in metrics(tmp_path / "run")) <= 3


class Voice(ScriptedEngine):
    """Says more for later members, tells what happens to it, and waits where it is told to."""

    def __init__(self, tokenizer: Any, *, inflight: bool = False) -> None:
        super().__init__(tokenizer, lambda session, turn: "so " * (1 + session[1]))
        self.inflight = inflight
        self.diary: list[str] = []
        self.asleep = False
        self.lasts = 10_000
        """Requests until it breaks."""
        self.gates: list[asyncio.Event] = []
        """One for each request to come: it is in two halves, with the gate between them."""

    async def generate(self, request: Request) -> Completion:
        if len(self.requests) >= self.lasts:
            raise EngineError("voice: it broke.")
        first = self.version
        whole = await super().generate(request)
        if self.gates:
            await self.gates.pop(0).wait()
        changes = ((1, self.version),) if self.version != first and len(whole.ids) > 1 else ()
        return replace(whole, version=first, changes=changes)

    async def load(self, source: WeightSource, version: int) -> None:
        assert not self.asleep
        if len(self.requests) >= self.lasts:
            raise EngineError("voice: it takes no weights.")
        self.diary.append(f"load {version}")
        await super().load(source, version)

    async def sleep(self) -> None:
        self.asleep = True
        self.diary.append("sleep")

    async def wake(self) -> None:
        self.asleep = False
        self.diary.append("wake")


@contextmanager
def voiced(config: Any, *, inflight: bool = False) -> Iterator[tuple[World, Voice]]:
    """A world whose engine is the double."""
    world = prepare(config, None, {}, (), ())
    asyncio.run(world.engine.close())
    voice = Voice(world.policy.tokenizer, inflight=inflight)
    world.engine = voice
    world.play = replace(world.play, engine=voice)
    world.play_heldout = replace(world.play_heldout, engine=voice)
    try:
        yield world, voice
    finally:
        world.held.close()


async def settle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


def within(seconds: float, story: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(story, seconds)

    return asyncio.run(bounded())


def test_an_engine_sleeps_through_the_update_and_wakes_before_it_is_given_weights(
    tmp_path, environment
):
    with voiced(ahead(tmp_path, environment("Lengths"), 0)) as (world, voice):

        async def story() -> None:
            course = await begin(world)
            await step(course, as_played)

        within(60, story())
        assert voice.diary == ["load 0", "sleep", "wake", "load 1"]


def test_a_failed_update_leaves_no_sleeping_engine(tmp_path, environment):
    with voiced(ahead(tmp_path, environment("Lengths"), 0)) as (world, voice):

        class Failing:
            cap = world.learner.cap

            def step(self, samples: Sequence[Any], kept: int) -> Any:
                raise RunError("update: no room.")

        world.learner = Failing()

        async def story() -> None:
            course = await begin(world)
            with pytest.raises(RunError, match="no room"):
                await step(course, as_played)

        within(60, story())
        assert voice.diary == ["load 0", "sleep", "wake"]


def test_an_engine_that_plays_ahead_is_never_put_to_sleep(tmp_path, environment):
    with voiced(ahead(tmp_path, environment("Lengths"), 1)) as (world, voice):

        async def story() -> None:
            course = await begin(world)
            for _ in range(3):
                await step(course, as_played)
            await course.pipeline.close()

        within(60, story())
        assert "sleep" not in voice.diary
        assert voice.diary[0] == "load 0"


def test_new_weights_reach_turns_in_flight_and_spans_say_so(tmp_path, environment):
    config = ahead(tmp_path, environment("Lengths"), 1, record={"tokens": True})
    with voiced(config, inflight=True) as (world, voice):

        async def story() -> list[set[int]]:
            course = await begin(world)
            gates = [asyncio.Event() for _ in range(12)]
            taking = asyncio.ensure_future(step(course, as_played))
            while not course.pipeline.idle or course.pipeline.ahead or not voice.requests:
                if len(voice.requests) >= 12 and not voice.gates and voice.version == 0:
                    voice.gates = list(gates)
                if taking.done():
                    break
                await asyncio.sleep(0.001)
            await taking
            assert voice.version == 1
            for gate in gates:
                gate.set()
            record = await step(course, as_played)
            await course.pipeline.close()
            assert record.row["stale/max"] == 1
            return [
                {s.version for b in t.branches for s in b.spans if s.kind == "sampled"}
                for g in record.groups
                for t in g.trajectories
            ]

        versions = within(60, story())
        assert {0, 1} in versions


@pytest.mark.parametrize("inflight", [False, True])
def test_an_engine_that_breaks_ahead_is_told_with_its_own_words_when_the_update_is_done(
    tmp_path, environment, inflight
):
    config = ahead(tmp_path, environment("Lengths"), 1)
    with voiced(config, inflight=inflight) as (world, voice):
        voice.lasts = 18

        async def story() -> None:
            course = await begin(world)
            with pytest.raises(EngineError, match="voice: it broke"):
                await step(course, as_played)
            await course.pipeline.close()

        within(60, story())
        assert world.standing.version == 1
        assert voice.diary == ["load 0"]
        assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_closing_lets_go_of_every_environment_that_plays_ahead(tmp_path, environment):
    with voiced(ahead(tmp_path, environment("Held"), 1)) as (world, voice):

        async def story() -> None:
            course = await begin(world)
            voice.gates = [asyncio.Event() for _ in range(12)]
            course.pipeline.allow(1)
            while len(voice.requests) < 12:
                await asyncio.sleep(0.001)
            await course.pipeline.close()
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert len(left) <= 1

        with suppress(asyncio.CancelledError):
            within(60, story())
        notes = (tmp_path / "held.txt").read_text().split()
        assert notes.count("begun") == notes.count("released") == 12
        assert len(voice.finished) == 12


def test_what_is_measured_is_told_in_order(tmp_path, environment):
    events: list[object] = []
    config = ahead(tmp_path, environment("Lengths"), 1, train={"eval_every": 2})
    train(config, listeners=[events.append])
    steps = [
        e.step if isinstance(e, Measured) else e.row["step"]
        for e in events
        if isinstance(e, Measured | Stepped)
    ]
    assert steps == [0, 1, 2, 2, 3, 4, 4]
