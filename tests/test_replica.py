"""An engine with weights of its own: what it holds, what it takes, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor, nn

from agentrl import adapter
from agentrl.engines.replica import replica_of, take
from agentrl.engines.transformers import TransformersEngine
from agentrl.errors import EngineError, WeightSyncError
from agentrl.policy import Completion, Request, Sampling
from agentrl.weights import ModelWeights
from tests.models import llama


class Part(ModelWeights):
    """Weights of which some are lost or changed on the way."""

    def __init__(self, model: nn.Module, *, lost: str = "", cut: str = "", more: str = "") -> None:
        super().__init__(model)
        self.lost, self.cut, self.more = lost, cut, more

    def items(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in super().items():
            if name == self.lost:
                continue
            yield name, tensor[:1] if name == self.cut else tensor
        if self.more:
            yield self.more, torch.zeros(1)


class Stuck(ModelWeights):
    """A source that gives tensors of one model and log-probs of another."""

    def __init__(self, model: nn.Module, said: nn.Module) -> None:
        super().__init__(model)
        self.said = ModelWeights(said)

    def fingerprint(self, ids: Sequence[int]) -> list[float]:
        return self.said.fingerprint(ids)


def start(model: nn.Module) -> TransformersEngine:
    return TransformersEngine(model, max_context=256, own_copy=True)


async def say(engine: TransformersEngine, count: int = 4) -> list[Completion]:
    requests = [Request((3, 4, 5), 6, (), Sampling(), m, (0, m)) for m in range(count)]
    with engine.episodes([r.session for r in requests]):
        return list(await asyncio.gather(*(engine.generate(r) for r in requests)))


def disturb(model: nn.Module, by: float = 0.3) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(by * torch.randn(parameter.shape, generator=_chance()))


def _chance() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@pytest.mark.parametrize("tied", [False, True])
def test_what_the_learner_does_meanwhile_changes_nothing_before_the_hand_over(tied: bool) -> None:
    model = llama(tied=tied)
    engine = start(model)
    before = asyncio.run(say(engine))
    disturb(model)
    assert asyncio.run(say(engine)) == before
    asyncio.run(engine.load(ModelWeights(model), 1))
    after = asyncio.run(say(engine))
    assert {c.version for c in after} == {1}
    assert [c.logprobs for c in after] == [c.logprobs for c in asyncio.run(say(start(model)))]
    assert [c.logprobs for c in after] != [c.logprobs for c in before]


def test_it_says_what_an_engine_with_the_learners_module_says() -> None:
    model = llama()
    shared = TransformersEngine(model, max_context=256)
    assert asyncio.run(say(shared)) == asyncio.run(say(start(model)))


def test_adapters_are_merged_and_their_updates_arrive() -> None:
    pytest.importorskip("peft")
    model = llama()
    adapter.add(model, 4, 8.0)
    engine = start(model)
    before = asyncio.run(say(engine))
    disturb(model)
    asyncio.run(engine.load(ModelWeights(model), 3))
    after = asyncio.run(say(engine))
    assert [c.ids for c in after] != [c.ids for c in before]
    assert adapter.is_plain(replica_of(model))


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ({"lost": "model.norm.weight"}, "1 tensors did not come, model.norm.weight"),
        ({"cut": "model.norm.weight"}, r"\[1\], not \[64\]"),
        ({"more": "model.extra"}, "model.extra is unknown"),
    ],
)
def test_a_hand_over_that_breaks_off_half_way_is_refused_and_nothing_is_sampled_until_one_succeeds(
    fault: dict[str, str], what: str
) -> None:
    model = llama()
    engine = start(model)
    disturb(model)
    with pytest.raises(WeightSyncError, match=what):
        asyncio.run(engine.load(Part(model, **fault), 1))
    with pytest.raises(EngineError, match="hand-over of weights failed"):
        asyncio.run(say(engine))
    asyncio.run(engine.load(ModelWeights(model), 2))
    assert {c.version for c in asyncio.run(say(engine))} == {2}


def test_tensors_that_do_not_compute_what_the_learner_computes_are_refused() -> None:
    model, other = llama(), llama(seed=1)
    engine = start(model)
    with pytest.raises(WeightSyncError, match="nats off"):
        asyncio.run(engine.load(Stuck(model, other), 1))
    with pytest.raises(EngineError, match="hand-over"):
        asyncio.run(say(engine))


def test_taking_leaves_the_source_alone() -> None:
    model, other = llama(), llama(seed=1)
    own = replica_of(model)
    kept = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    take(own, ModelWeights(other))
    disturb(own.requires_grad_(True))
    for name, tensor in other.state_dict().items():
        assert torch.equal(tensor, kept[name])
