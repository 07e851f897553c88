"""A real vLLM server: tokens, hand-overs between two tokens, its death and return."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import agentrl
from agentrl.config import TrainConfig
from agentrl.engines import build
from agentrl.engines.servers.facts import COMPLETIONS
from agentrl.errors import EngineError
from agentrl.events import Played
from agentrl.policy import Request, Sampling
from agentrl.render import renderer_for
from agentrl.sections import EngineSection
from agentrl.weights import ModelWeights, load_policy
from tests.processes import below, living
from tests.wild import assert_exact, mismatch, play_wild

pytestmark = pytest.mark.slow
pytest.importorskip("vllm")

UP = 240.0
"""Seconds in which a server comes up on a machine with other work."""
LIMIT = 240.0


@contextmanager
def served(*words, port=0):
    """`agentrl serve` in a process of its own, stopped as Ctrl-C does."""
    command = [sys.executable, "-m", "agentrl", "serve", "--json", "--port", str(port), *words]
    command += ["--engine.cache_gib", "0.25", "--rollout.max_context", "2048"]
    root = Path(__file__).parents[1]
    paths = os.pathsep.join(str(root / part) for part in (".", "environments", "tools"))
    process = subprocess.Popen(
        [*command, "--timeout", str(UP)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "it did not come up"
        yield json.loads(line)
    finally:
        family = below(process.pid)
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()
        assert not living(family)


@pytest.fixture(scope="module")
def server():
    with served("--model", "tiny") as told:
        yield told


def engine_at(*urls, policy, **settings):
    section = EngineSection(name="vllm-server", urls=urls, **settings)
    return build.build(build.Order(section, policy, policy.folder, 2048, 0))


def at(url, work, **settings):
    """Run a coroutine function with an engine, its policy and its first weights handed over."""
    policy = load_policy("tiny")
    # The engine meets its servers before a loop runs, as it does in training.
    engine = engine_at(url, policy=policy, **settings)

    async def whole():
        try:
            async with asyncio.timeout(LIMIT):
                await engine.load(ModelWeights(policy.model), 1)
                return await work(engine, policy)
        finally:
            await engine.close()

    return asyncio.run(whole())


def changed(policy):
    """The same policy after an update."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return ModelWeights(policy.model)


def long_turn(seed):
    return Request((3, 5, 7), 1900, (), Sampling(), seed, (0, seed))


def test_a_run_trains_with_it_and_its_log_probs_are_the_learner_s(server, tmp_path):
    config = settings(server["url"], tmp_path, steps=2)
    summary = agentrl.train(config)
    assert summary.status == "done"
    rows = metrics(summary.path)
    assert [row["engine/hand_overs"] for row in rows] == [1, 1]
    assert all(abs(row["mismatch/k3"]) < 1e-5 for row in rows)
    assert "--engine vllm-server --url" in server["train"]


def test_a_run_that_plays_ahead_takes_weights_while_turns_are_asked_for(server, tmp_path):
    summary = agentrl.train(settings(server["url"], tmp_path, steps=4, ahead=1))
    rows = metrics(summary.path)
    assert summary.status == "done"
    assert max(row["stale/max"] for row in rows) == 1
    assert sum(row["engine/hand_overs"] for row in rows) >= 4
    assert all(row["mismatch/k3"] < 0.1 for row in rows)


@pytest.mark.parametrize("path", ["as it is", COMPLETIONS])
def test_five_hundred_wild_episodes_are_trained_on_the_tokens_that_were_sampled(server, path):
    async def work(engine, policy):
        if path == COMPLETIONS:
            for one in engine.servers:
                one.facts = replace(one.facts, path=COMPLETIONS)
        episodes = 500 if path != COMPLETIONS else 60
        played = await play_wild(engine, renderer_for(policy.tokenizer), episodes)
        assert_exact(played)
        return mismatch(policy.model, played.samples()), played.kinds()

    apart, kinds = at(server["url"], work)
    assert apart.abs().max() < 1e-3
    assert {"calls 3", "not ascii", "outcome error"} <= kinds.keys()
    assert kinds["end length"] or path == COMPLETIONS


def test_weights_that_come_between_two_tokens_are_told_token_by_token(server):
    async def work(engine, policy):
        assert engine.inflight
        # Many, so that they last while this process and the server share two cores.
        turns = [asyncio.create_task(engine.generate(long_turn(seed))) for seed in range(16)]
        before = load_policy("tiny").model
        await asyncio.sleep(1.0)
        assert not any(turn.done() for turn in turns)
        await engine.load(changed(policy), 2)
        return before, policy.model, await asyncio.gather(*turns)

    before, after, said = at(server["url"], work)
    models = {1: before, 2: after}
    for completion in said:
        assert {version for version, _, _ in completion.pieces()} == {1, 2}
        ids = [3, 5, 7, *completion.ids]
        for version, start, end in completion.pieces():
            own = ModelWeights(models[version]).fingerprint(ids)[2 + start : 2 + end]
            apart = torch.tensor(own) - torch.tensor(completion.logprobs[start:end])
            assert apart.abs().max() < 1e-3


def test_members_of_a_group_differ_and_the_same_seeds_draw_the_same(server):
    async def work(engine, policy):
        async def group():
            asked = [replace(long_turn(seed), max_tokens=30) for seed in range(16)]
            return [c.ids for c in await asyncio.gather(*map(engine.generate, asked))]

        return await group(), await group()

    first, again = at(server["url"], work)
    assert len(set(first)) == 16
    assert first == again


def test_adapters_come_by_name_and_are_the_learner_s(tmp_path):
    with served("--model", "tiny", "--model.lora_rank", "8") as told:
        config = settings(told["url"], tmp_path, steps=2, lora=8)
        rows = metrics(agentrl.train(config).path)
    assert [row["engine/hand_overs"] for row in rows] == [1, 1]
    assert all(abs(row["mismatch/k3"]) < 1e-4 for row in rows)


def killer(pid, episodes):
    """A listener that kills a server and its children after so many episodes."""
    seen = Counter()
    killed = threading.Event()

    def kill(event):
        if isinstance(event, Played) and event.phase == "rollout":
            seen["done"] += 1
            if seen["done"] == episodes:
                os.killpg(pid, signal.SIGKILL)
                killed.set()

    return kill, killed


def test_killed_in_mid_step_and_started_anew_the_run_goes_on_with_its_weights(tmp_path):
    with served("--model", "tiny") as first:
        kill, killed = killer(first["pid"], 20)  # in the second step
        done = threading.Event()

        def restart():
            killed.wait()
            with served("--model", "tiny", port=int(first["url"].rpartition(":")[2])):
                done.wait()

        helper = threading.Thread(target=restart)
        helper.start()
        try:
            config = settings(first["url"], tmp_path, steps=3, patience=UP)
            summary = agentrl.train(config, listeners=[kill])
        finally:
            done.set()
            killed.set()
            helper.join()
    rows = metrics(summary.path)
    assert summary.status == "done"
    assert sum(row["engine/servers_lost"] for row in rows) == 1
    assert sum(row["engine/servers_back"] for row in rows) == 1
    assert all(abs(row["mismatch/k3"]) < 1e-5 for row in rows)


def test_without_any_server_the_run_ends_and_goes_on_later_at_another(server, tmp_path):
    with served("--model", "tiny") as first:
        kill, _ = killer(first["pid"], 20)
        config = settings(first["url"], tmp_path, steps=3, patience=1.0, name="cut")
        with pytest.raises(EngineError, match=r"no server is left.*agentrl train --resume"):
            agentrl.train(config, listeners=[kill])
    config = settings(server["url"], tmp_path, steps=3, name="cut")
    summary = agentrl.train(config, resume=str(tmp_path / "cut"))
    assert (summary.status, len(metrics(summary.path))) == ("done", 3)


def settings(url, out, *, steps, lora=0, name="", ahead=0, **engine):
    return TrainConfig.model_validate(
        {
            "model": {"name": "tiny", "lora_rank": lora},
            "engine": {"name": "vllm-server", "urls": (url,), **engine},
            "rollout": {"max_context": 2048},
            "select": {"n": 8, "m": 4},
            "train": {"steps": steps, "tasks_per_step": 2, "max_staleness": ahead},
            "heldout": {"tasks": 0},
            "run": {"out": str(out), "progress": "off", "name": name},
        }
    )


def metrics(path):
    text = (Path(path) / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]
