"""The transformers engine says what the model says, whoever asks first and whatever is reused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agentrl.engines.transformers import TransformersEngine
from agentrl.errors import EngineError, WeightSyncError
from agentrl.policy import Completion, Request, Sampling

VOCABULARY = 128
STOPS = (5, 6, 7, 8)
WHOLE = Sampling()
Session = tuple[int, int]

SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "initializer_range": 0.1,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}


def build(kind=LlamaForCausalLM, config=LlamaConfig, *, seed=0, kv=2, **options) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config(**(SMALL | {"num_key_value_heads": kv} | options)))


def start(model: nn.Module, **options) -> TransformersEngine:
    return TransformersEngine(model, max_context=4096, **options)


@dataclass(frozen=True)
class Said:
    """One turn as it was asked and answered."""

    request: Request
    completion: Completion


class Source:
    """Weights of a model, as a learner hands them over."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def items(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.model.state_dict().items()

    def fingerprint(self, ids: Sequence[int]) -> list[float]:
        return plain(self.model, ids, 1.0)


def plain(model: nn.Module, ids: Sequence[int], temperature: float) -> list[float]:
    """Log-prob of each id but the first, by one forward pass without any cache."""
    row = torch.tensor([list(ids)])
    with torch.no_grad():
        logits = model(input_ids=row, use_cache=False).logits[0, :-1].float()
    logprobs = (logits / (temperature or 1.0)).log_softmax(-1)
    return logprobs.gather(1, row[0, 1:, None])[:, 0].tolist()


def words(seed: object, count: int) -> list[int]:
    return random.Random(repr(seed)).choices(range(10, VOCABULARY), k=count)


def observe(session: Session, turn: int) -> list[int]:
    """What comes between turns: of a different length for each."""
    return words((session, turn), 1 + (3 * session[0] + 5 * session[1] + turn) % 7)


def extend(session: Session, turn: int, ids: list[int]) -> list[int]:
    return ids + observe(session, turn)


Next = Callable[[Session, int, list[int]], list[int]]
Delay = Callable[[Session, int], float]


async def _play(
    engine: TransformersEngine,
    prompts: Mapping[Session, Sequence[int]],
    *,
    turns: int = 3,
    max_tokens: int = 9,
    sampling: Sampling = WHOLE,
    stops: tuple[int, ...] = STOPS,
    go_on: Next = extend,
    delay: Delay | None = None,
) -> list[Said]:
    said: list[Said] = []

    async def one(session: Session) -> None:
        ids = list(prompts[session])
        for turn in range(turns - session[1] % 2):
            if delay is not None:
                await asyncio.sleep(delay(session, turn))
            seed = 1000 * session[0] + 10 * session[1] + turn
            request = Request(tuple(ids), max_tokens, stops, sampling, seed, session, turn)
            completion = await engine.generate(request)
            said.append(Said(request, completion))
            ids = go_on(session, turn, ids + list(completion.ids))
        engine.finish(session)

    with engine.episodes(list(prompts)):
        await asyncio.gather(*(one(session) for session in prompts))
    return sorted(said, key=lambda s: (s.request.turn, s.request.session))


def play(engine: TransformersEngine, prompts: Mapping[Session, Sequence[int]], **options):
    return asyncio.run(_play(engine, prompts, **options))


def groups(tasks: int, members: int, length: int = 12) -> dict[Session, list[int]]:
    """Members of a task begin with the same prompt; tasks with prompts of other lengths."""
    return {
        (task, member): words(("task", task), length + 3 * task)
        for task in range(tasks)
        for member in range(members)
    }


def assert_true_to(model: nn.Module, said: Sequence[Said]) -> None:
    """Every log-prob equals the one of a plain forward pass over the whole sequence."""
    assert said
    for s in said:
        ids = s.request.prompt_ids + s.completion.ids
        expected = plain(model, ids, s.request.sampling.temperature)[-len(s.completion.ids) :]
        assert s.completion.logprobs == pytest.approx(expected, abs=1e-5)


def fed(said: Sequence[Said], *, first: int) -> int:
    """Tokens that must go through the model: `first` for the opening prompts, then news only."""
    held: dict[Session, int] = {}
    total = first
    for s in said:
        if s.request.turn > 0:
            total += len(s.request.prompt_ids) - held[s.request.session]
        total += len(s.completion.ids) - 1
        held[s.request.session] = len(s.request.prompt_ids) + len(s.completion.ids) - 1
    return total


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return build().eval()


@pytest.mark.parametrize("kv", [1, 2, 4])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("members", [1, 4])
def test_logprobs_are_those_of_a_plain_forward_pass_over_turns_of_ragged_lengths(
    kv: int, tied: bool, members: int
) -> None:
    model = build(kv=kv, tie_word_embeddings=tied).eval()
    said = play(start(model), groups(3, members))
    assert len({len(s.completion.ids) for s in said}) > 1
    assert_true_to(model, said)


def test_another_architecture_is_true_to_its_own_logits_too() -> None:
    model = build(Qwen3ForCausalLM, Qwen3Config).eval()
    assert_true_to(model, play(start(model), groups(2, 3)))


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.7])
def test_logprobs_are_those_of_the_distribution_that_was_drawn_from(
    model: nn.Module, temperature: float
) -> None:
    said = play(start(model), groups(2, 3), sampling=Sampling(temperature))
    assert_true_to(model, said)


def test_temperature_zero_takes_the_likeliest_token_whatever_the_seed(model: nn.Module) -> None:
    said = play(start(model), groups(1, 4), sampling=Sampling(0.0), turns=2)
    firsts = {s.completion.ids for s in said if s.request.turn == 0}
    assert len(firsts) == 1
    ids = list(said[0].request.prompt_ids)
    for token in next(iter(firsts)):
        with torch.no_grad():
            assert token == int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
        ids.append(token)


def test_a_group_prompt_is_computed_once_and_later_turns_compute_only_news(
    model: nn.Module,
) -> None:
    engine = start(model)
    before = engine.forwarded_tokens
    prompts = groups(3, 5)
    said = play(engine, prompts)
    opening = sum(len(prompts[task, 0]) for task in range(3))
    assert engine.forwarded_tokens - before == fed(said, first=opening)
    assert_true_to(model, said)


@pytest.mark.parametrize("members", [1, 2])
def test_a_long_common_beginning_of_all_tasks_is_computed_once(
    model: nn.Module, members: int
) -> None:
    engine = start(model)
    before = engine.forwarded_tokens
    schema = words("schema", 200)
    tails = groups(5, members)
    said = play(engine, {session: schema + tail for session, tail in tails.items()})
    opening = 200 + sum(len(tails[task, 0]) for task in range(5))
    assert engine.forwarded_tokens - before == fed(said, first=opening)
    assert_true_to(model, said)


def test_a_prompt_that_is_the_beginning_of_all_others_still_gets_its_first_draw(
    model: nn.Module,
) -> None:
    schema = words("schema", 300)
    prompts = {(0, 0): schema, (1, 0): [*schema, 11, 12], (2, 0): [*schema, 13]}
    assert_true_to(model, play(start(model), prompts))


def test_prompts_too_long_for_one_pass_are_read_in_several(model: nn.Module) -> None:
    prompts = {
        (0, 0): words("long", 3000),
        (1, 0): words("short", 20),
        (1, 1): words("short", 20),
        (2, 0): words("middle", 900),
    }
    assert_true_to(model, play(start(model), prompts, turns=2, max_tokens=2))


def test_many_rows_that_end_at_different_times_do_not_disturb_each_other(
    model: nn.Module,
) -> None:
    engine = start(model)
    prompts = groups(8, 12)
    together = play(engine, prompts, turns=2, max_tokens=20)
    assert len({len(s.completion.ids) for s in together}) > 10
    assert_true_to(model, together)
    alone = [
        said
        for session in list(prompts)[:5]
        for said in play(engine, {session: prompts[session]}, turns=2, max_tokens=20)
    ]
    expected = {(s.request.session, s.request.turn): s.completion.ids for s in together}
    for s in alone:
        assert s.completion.ids == expected[s.request.session, s.request.turn]


def test_the_same_requests_give_the_same_bits_whatever_the_engine_did_before(
    model: nn.Module,
) -> None:
    prompts = groups(4, 6)
    first = play(start(model), prompts)
    used = start(model)
    play(used, groups(9, 9, length=150), turns=2, max_tokens=30)
    assert play(used, prompts) == first
    assert play(used, prompts) == first


def test_the_order_in_which_requests_arrive_changes_no_bit(model: nn.Module) -> None:
    prompts = groups(4, 6)
    expected = play(start(model), prompts)
    for shuffle in range(3):
        chance = random.Random(shuffle)
        said = play(start(model), prompts, delay=lambda s, t, c=chance: c.random() / 100)
        assert said == expected
    backwards = dict(reversed(prompts.items()))
    assert play(start(model), backwards) == expected


def test_members_of_a_group_differ_by_seed_alone(model: nn.Module) -> None:
    engine = start(model)

    async def ask(seeds: Sequence[int]) -> list[tuple[int, ...]]:
        requests = [
            Request((11, 12, 13), 12, (), Sampling(), seed, (0, member))
            for member, seed in enumerate(seeds)
        ]
        with engine.episodes([r.session for r in requests]):
            done = await asyncio.gather(*(engine.generate(r) for r in requests))
        return [completion.ids for completion in done]

    ids = asyncio.run(ask([1, 2, 3, 2, 1]))
    assert len(set(ids)) == 3
    assert ids[0] == ids[4]
    assert ids[1] == ids[3]


def test_a_turn_ends_with_its_stop_token_or_at_its_length(model: nn.Module) -> None:
    said = play(start(model), groups(6, 6), max_tokens=15)
    reasons = {"stop": 0, "length": 0}
    for s in said:
        *before, last = s.completion.ids
        assert not set(before) & set(STOPS)
        reasons[s.completion.finish_reason] += 1
        if s.completion.finish_reason == "stop":
            assert last in STOPS
        else:
            assert last not in STOPS
            assert len(s.completion.ids) == 15
    assert min(reasons.values()) > 0


@pytest.mark.parametrize("common", [0, 400])
def test_a_prompt_that_rewrites_history_is_answered_as_if_nothing_were_held(
    model: nn.Module, common: int
) -> None:
    def rewrite(session: Session, turn: int, ids: list[int]) -> list[int]:
        cut = (4, common + 6, common + 14, len(ids) - 3, 0)[session[1]]
        return ids[:cut] + words("rewritten", 5) + observe(session, turn)

    tails = groups(3, 5)
    prompts = {session: words("schema", common) + tail for session, tail in tails.items()}
    assert_true_to(model, play(start(model), prompts, go_on=rewrite))


def test_what_is_held_outlives_the_growth_of_its_memory(model: nn.Module) -> None:
    assert_true_to(model, play(start(model), groups(2, 2, length=30), max_tokens=90, stops=()))


def test_a_prompt_may_take_back_what_was_said(model: nn.Module) -> None:
    said = play(start(model), groups(2, 3), go_on=lambda session, turn, ids: ids[:8])
    assert_true_to(model, said)


def test_after_an_update_nothing_of_the_old_weights_is_used() -> None:
    model = build().eval()
    engine = start(model)
    prompts = groups(2, 2)

    async def ask() -> tuple[list[Said], list[Said]]:
        async def turn(number: int) -> list[Said]:
            requests = [
                Request(tuple(p) + (20,) * number, 5, (), Sampling(), 3, s, number)
                for s, p in prompts.items()
            ]
            done = await asyncio.gather(*(engine.generate(r) for r in requests))
            return [Said(r, c) for r, c in zip(requests, done, strict=True)]

        with engine.episodes(list(prompts)):
            old = await turn(0)
            assert_true_to(model, old)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            model(input_ids=torch.tensor([prompts[0, 0]])).logits.square().mean().backward()
            optimizer.step()
            await engine.load(Source(model), 1)
            return old, await turn(1)

    old, new = asyncio.run(ask())
    assert {s.completion.version for s in old} == {0}
    assert {s.completion.version for s in new} == {1}
    assert_true_to(model, new)
    ids = new[0].request.prompt_ids + new[0].completion.ids
    assert plain(build(), ids, 1.0) != pytest.approx(plain(model, ids, 1.0), abs=1e-3)


def test_weights_of_another_module_are_refused() -> None:
    engine = start(build())
    with pytest.raises(WeightSyncError, match="new weights"):
        asyncio.run(engine.load(Source(build(seed=1).eval()), 1))
    assert engine.version == 0


def test_the_model_is_left_as_it_was() -> None:
    model = build().train()
    model.model.layers[0].eval()
    modes = [m.training for m in model.modules()]
    attention = model.config._attn_implementation
    said = play(start(model), groups(1, 2))
    assert [m.training for m in model.modules()] == modes
    assert model.config._attn_implementation == attention
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    model(input_ids=torch.tensor([said[0].request.prompt_ids])).logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_wave_that_needs_more_memory_than_allowed_is_computed_in_parts(
    model: nn.Module,
) -> None:
    prompts = groups(4, 4)
    whole = play(start(model), prompts)
    parts = play(start(model, cache_gib=3 * 40 * 512 / 2**30), prompts)
    assert [s.completion.ids for s in parts] == [s.completion.ids for s in whole]
    assert_true_to(model, parts)


def test_a_bfloat16_model_is_near_its_own_logits() -> None:
    model = build().to(torch.bfloat16).eval()
    for s in play(start(model), groups(2, 3)):
        expected = plain(model, s.request.prompt_ids + s.completion.ids, 1.0)
        gap = np.subtract(s.completion.logprobs, expected[-len(s.completion.ids) :])
        assert np.abs(gap).mean() < 0.1


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "what"),
    [
        (words("full", 4000), 97, "do not fit"),
        ([3, VOCABULARY], 4, "vocabulary"),
        ([-1], 4, "vocabulary"),
        ([], 4, "empty prompt"),
        ([3], 0, "no token"),
    ],
)
def test_an_impossible_request_fails_alone(
    model: nn.Module, prompt: list[int], max_tokens: int, what: str
) -> None:
    engine = start(model)

    async def ask() -> tuple[Completion, BaseException]:
        with engine.episodes([(0, 0), (0, 1)]):
            good = asyncio.ensure_future(
                engine.generate(Request((3, 4), 3, (), Sampling(), 0, (0, 0)))
            )
            with pytest.raises(EngineError, match=what) as caught:
                await engine.generate(Request(tuple(prompt), max_tokens, (), Sampling(), 0, (0, 1)))
            engine.finish((0, 1))
            return await good, caught.value

    completion, _ = asyncio.run(ask())
    assert len(completion.ids) == 3


def test_a_context_may_be_filled_to_its_last_token(model: nn.Module) -> None:
    engine = TransformersEngine(model, max_context=20)
    said = play(engine, {(0, 0): words("full", 16)}, turns=1, max_tokens=4, stops=())
    assert len(said[0].completion.ids) == 4


def test_no_context_is_promised_beyond_the_positions_of_the_model(model: nn.Module) -> None:
    assert TransformersEngine(model, max_context=1 << 20).max_context == 4096


def test_when_a_wave_fails_every_waiter_is_told_and_the_next_wave_is_right() -> None:
    model = build().eval()
    engine = start(model)
    broken = [False]

    def fail(module: nn.Module, args: object) -> None:
        if broken[0]:
            raise RuntimeError("no memory left")

    model.model.register_forward_pre_hook(fail)

    async def ask() -> list[BaseException | Completion]:
        requests = [Request((3, 4), 3, (), Sampling(), m, (0, m)) for m in range(3)]
        with engine.episodes([r.session for r in requests]):
            broken[0] = True
            first = await asyncio.gather(
                *(engine.generate(r) for r in requests), return_exceptions=True
            )
            broken[0] = False
            return first + list(await asyncio.gather(*(engine.generate(r) for r in requests)))

    *failures, one, two, three = asyncio.run(ask())
    assert len({id(f) for f in failures}) == 3
    assert all(isinstance(f, EngineError) and "no memory left" in str(f) for f in failures)
    said = [Said(Request((3, 4), 3, (), Sampling(), 0, (0, 0)), c) for c in (one, two, three)]
    assert_true_to(model, said)


def test_a_wave_that_nobody_waits_for_ends_before_the_cohort_does() -> None:
    engine = start(build().eval())
    before = engine.forwarded_tokens

    async def ask() -> None:
        with engine.episodes([(0, 0)]):
            request = Request((3, 4), 4000, (), Sampling(), 0, (0, 0))
            waiting = asyncio.ensure_future(engine.generate(request))
            while engine.forwarded_tokens < before + 10:
                await asyncio.sleep(0)
            waiting.cancel()
        assert engine.forwarded_tokens < before + 4000
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(ask())
    after = engine.forwarded_tokens
    assert len(play(engine, groups(1, 2))) == 5
    assert engine.forwarded_tokens > after


def test_weights_that_are_not_finite_are_named_as_such() -> None:
    model = build().eval()
    engine = start(model)
    with torch.no_grad():
        model.lm_head.weight[3] = torch.nan
    with pytest.raises(EngineError, match="not finite"):
        play(engine, groups(1, 2))


class Crowded(LlamaForCausalLM):
    """A model whose tokens stand in pairs at one position, which no config tells."""

    def forward(self, input_ids, **kwargs):
        positions = torch.arange(input_ids.shape[1])[None] // 2
        return super().forward(input_ids=input_ids, position_ids=positions, **kwargs)


class Louder(LlamaForCausalLM):
    """A model whose head does something that its config does not tell."""

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.logits = out.logits * 1.5
        return out


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: build(Louder), "nats off"),
        (lambda: build(Crowded, hidden_size=128).to(torch.bfloat16), "nats off"),
        (lambda: build(MistralForCausalLM, MistralConfig, sliding_window=64), "sliding_window"),
        (lambda: build(Gemma2ForCausalLM, Gemma2Config), "sliding_attention"),
        (
            lambda: build(Gemma2ForCausalLM, Gemma2Config, layer_types=["full_attention"] * 2),
            "softcap",
        ),
    ],
    ids=["logits", "positions", "window", "layers", "softcap"],
)
def test_a_model_it_cannot_compute_exactly_is_refused_with_the_way_out(
    make: Callable[[], nn.Module], what: str
) -> None:
    with pytest.raises(EngineError, match=what) as caught:
        start(make())
    assert "--engine vllm" in str(caught.value)


def test_it_closes() -> None:
    engine = start(build())
    asyncio.run(engine.close())
