"""One optimizer step: the same gradient however it is cut, and nothing that isn't trained."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter, functional
from transformers import LlamaForCausalLM, PreTrainedModel

from agentrl.errors import RunError, UsageError
from agentrl.loss import Trust
from agentrl.move import allocate
from agentrl.optimizers import build
from agentrl.sample import Sample
from agentrl.update import Learner, UpdateReport
from tests.models import llama
from tests.rows import SAMPLES, sample

NAN = math.nan


def learner(model: PreTrainedModel | None = None, **options: Any) -> Learner:
    return Learner(model or llama(), **{"lr": 1e-3, "grad_norm": 1e9} | options)


class Gradients:
    """Takes the gradient at the moment the optimizer would use it."""

    def __init__(self, model: PreTrainedModel | None = None, **options: Any) -> None:
        self.learner = learner(model, **options)
        self.found: Tensor | None = None
        self.learner._optimizer.register_step_pre_hook(self.look)

    def look(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        every = [p.grad.flatten() for p in optimizer.param_groups[0]["params"]]
        self.found = torch.cat(every).clone()

    def of(self, samples: list[Sample], kept: int | None = None) -> tuple[Tensor, UpdateReport]:
        report = self.learner.step(samples, len(samples) if kept is None else kept)
        assert self.found is not None
        return self.found, report


def weights_of(model: PreTrainedModel) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def same(left: Tensor, right: Tensor, tolerance: float = 1e-5) -> bool:
    return bool((left - right).norm() <= tolerance * right.norm())


def plain_gradient(samples: list[Sample], low: float, high: float, temperature: float) -> Tensor:
    """The grpo loss written out: one row at a time, all logits, no padding."""
    model = llama()
    loss = torch.zeros(())
    for s in samples:
        ids = torch.tensor([s.input_ids])
        every = (model(ids).logits[0, :-1] / temperature).log_softmax(-1)
        logprobs = every.gather(1, ids[0, 1:, None]).squeeze(1)
        mask = torch.tensor(s.loss_mask[1:], dtype=torch.bool)
        ratio = (logprobs[mask] - torch.tensor(s.logprobs)[1:][mask]).exp()
        gain = torch.minimum(ratio * s.advantage, ratio.clamp(1 - low, 1 + high) * s.advantage)
        loss = loss - s.weight * gain.mean() / len(samples)
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_gradient_is_that_of_the_loss_written_out(temperature: float) -> None:
    samples = [replace(s, weight=1.0 + i) for i, s in enumerate(SAMPLES)]
    ours, _ = Gradients(temperature=temperature, trust=Trust(clip_high=0.28)).of(samples)
    assert same(ours, plain_gradient(samples, 0.2, 0.28, temperature))


@pytest.mark.parametrize(
    ("packing", "caps"), [(True, (1000, 60, 40, 27)), (False, (1000, 100, 48, 27))]
)
@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_the_gradient_is_the_same_however_the_rows_are_cut(
    loss: str, packing: bool, caps: tuple[int, ...]
) -> None:
    cuts: dict[int, Tensor] = {}
    for cap in caps:
        looking = Gradients(loss=loss, tokens_per_micro_batch=cap, packing=packing)
        gradient, report = looking.of(SAMPLES)
        cuts[report.micro_batches] = gradient
        assert report.tokens == sum(len(s.input_ids) for s in SAMPLES)
        assert (report.tokens_padded == report.tokens) is (packing or cap == 27)
    assert set(cuts) == {1, 2, 4, 7}
    assert all(same(gradient, cuts[1]) for gradient in cuts.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_rows_padded_rows_and_rows_one_by_one_give_one_gradient(dtype: torch.dtype) -> None:
    found = [
        Gradients(llama().to(dtype), **options).of(SAMPLES)[0]
        for options in ({}, {"packing": False}, {"tokens_per_micro_batch": 27})
    ]
    tolerance = 1e-5 if dtype == torch.float32 else 0.03
    assert all(same(gradient, found[0], tolerance) for gradient in found)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_a_micro_batch_of_one_trained_token_weighs_as_in_the_whole_batch(loss: str) -> None:
    pair = [
        sample(1, 4, 8, 1.0),
        replace(sample(2, 30, 1, -1.0), loss_mask=(0,) * 30 + (1, 0, 0, 0, 0)),
    ]
    whole, _ = Gradients(loss=loss).of(pair)
    halves, report = Gradients(loss=loss, tokens_per_micro_batch=35).of(pair)
    assert report.micro_batches == 2
    assert same(halves, whole)


def test_in_grpo_a_trajectory_of_two_branches_counts_as_one() -> None:
    whole = sample(1, 4, 8, 1.0)
    twice = [replace(whole, weight=0.5)] * 2
    other = sample(2, 4, 3, -1.0)
    expected, _ = Gradients().of([whole, other], kept=2)
    got, _ = Gradients().of([*twice, other], kept=2)
    assert same(got, expected)


def test_what_is_not_sampled_has_no_influence_through_the_loss() -> None:
    first, report = Gradients().of(SAMPLES)
    noisy = [
        replace(
            s, logprobs=tuple(v if m else 1e4 for v, m in zip(s.logprobs, s.loss_mask, strict=True))
        )
        for s in SAMPLES
    ]
    second, other = Gradients().of(noisy)
    assert torch.equal(first, second)
    assert report == replace(other, peak_bytes=report.peak_bytes)


def test_a_last_observation_changes_nothing_but_the_tokens_forwarded() -> None:
    """Nothing sampled follows it, so neither its ids as labels nor as context may count."""
    short = [sample(1, 4, 8, 1.0), sample(2, 4, 3, -1.0)]
    long = [
        Sample(s.input_ids + extra, s.loss_mask + (0,) * 5, s.logprobs + (3.0,) * 5, s.advantage)
        for s, extra in zip(short, [(5, 6, 7, 8, 9), (90, 2, 2, 2, 90)], strict=True)
    ]
    bare, _ = Gradients().of(short)
    trailed, report = Gradients().of(long)
    assert same(trailed, bare)
    assert report.tokens == sum(len(s.input_ids) for s in long)


def test_a_row_with_nothing_sampled_adds_nothing_but_is_counted_in_k() -> None:
    silent = replace(sample(9, 4, 4, 5.0), loss_mask=(0,) * 12)
    alone, report = Gradients().of(SAMPLES, kept=8)
    beside, other = Gradients().of([*SAMPLES, silent], kept=8)
    assert torch.equal(alone, beside)
    assert report.tokens == other.tokens


def test_with_nothing_sampled_at_all_the_step_is_skipped() -> None:
    taught = learner()
    before = weights_of(taught.model)
    report = taught.step([replace(SAMPLES[0], loss_mask=(0,) * len(SAMPLES[0].input_ids))], 1)
    assert report.skipped
    assert report.loss == 0.0
    assert torch.equal(before, weights_of(taught.model))


def test_zero_advantages_give_a_zero_gradient() -> None:
    gradient, report = Gradients().of([replace(s, advantage=0.0) for s in SAMPLES])
    assert not gradient.any()
    assert report.grad_norm == 0.0


def test_tokens_without_engine_log_probs_are_trained_as_on_policy() -> None:
    unknown = [replace(s, logprobs=(NAN,) * len(s.input_ids)) for s in SAMPLES]
    _, report = Gradients().of(unknown)
    assert (report.k3, report.max_gap, report.clip_fraction) == (None, None, 0.0)
    assert report.loss == pytest.approx(-sum(s.advantage for s in SAMPLES) / len(SAMPLES))


def own_logprobs(model: PreTrainedModel, s: Sample, temperature: float) -> Sample:
    ids = torch.tensor([s.input_ids])
    with torch.no_grad():
        every = (model(ids).logits[0, :-1] / temperature).log_softmax(-1)
    values = [NAN, *every.gather(1, ids[0, 1:, None]).squeeze(1).tolist()]
    return replace(
        s, logprobs=tuple(v if m else NAN for v, m in zip(values, s.loss_mask, strict=True))
    )


@pytest.mark.parametrize(("temperature", "agrees"), [(0.7, True), (1.0, False)])
def test_log_probs_are_taken_at_the_temperature_of_sampling(
    temperature: float, agrees: bool
) -> None:
    played = [own_logprobs(llama(), s, 0.7) for s in SAMPLES]
    report = learner(temperature=temperature).step(played, len(played))
    assert report.max_gap is not None
    assert (report.max_gap < 1e-4) is agrees


def test_metrics_are_means_over_trained_tokens_only() -> None:
    model, (s,) = llama(), [SAMPLES[0]]
    with torch.no_grad():
        every = model(torch.tensor([s.input_ids])).logits[0, :-1].log_softmax(-1)
    mask = torch.tensor(s.loss_mask[1:], dtype=torch.bool)
    own = every.gather(1, torch.tensor(s.input_ids)[1:, None]).squeeze(1)[mask]
    log_ratio = own - torch.tensor(s.logprobs)[1:][mask]
    report = learner(model).step([s], 1)
    assert report.trained_tokens == sum(s.loss_mask)
    assert report.entropy == pytest.approx(
        -(every.exp() * every).sum(-1)[mask].mean().item(), rel=1e-4
    )
    assert report.k3 == pytest.approx((log_ratio.exp() - 1 - log_ratio).mean().item(), rel=1e-4)
    assert report.max_gap == pytest.approx(log_ratio.abs().max().item(), rel=1e-4)
    assert report.clip_fraction == pytest.approx((log_ratio.exp() > 1.2).float().mean().item())


def test_one_step_is_one_optimizer_step_and_ids_are_never_wider_than_their_longest_row() -> None:
    model = llama()
    shapes: list[tuple[int, ...]] = []
    model.model.register_forward_pre_hook(
        lambda _, __, inputs: shapes.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
    )
    taught, steps = learner(model, tokens_per_micro_batch=60, packing=False), []
    taught._optimizer.register_step_post_hook(lambda *_: steps.append(1))
    shapes.clear()
    report = taught.step(SAMPLES, len(SAMPLES))
    longest = sorted((len(s.input_ids) for s in SAMPLES), reverse=True)
    assert len(steps) == 1
    assert sum(rows for rows, _ in shapes) == len(SAMPLES)
    assert sum(rows * width for rows, width in shapes) == report.tokens_padded
    start = 0
    for rows, width in shapes:
        assert rows * width <= 60
        assert width == longest[start]
        start += rows


def test_packed_rows_go_forward_without_padding_and_under_the_cap() -> None:
    model = llama()
    shapes: list[tuple[int, ...]] = []
    taught = learner(model, tokens_per_micro_batch=40)
    model.model.register_forward_pre_hook(
        lambda _, __, inputs: shapes.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
    )
    report = taught.step(SAMPLES, len(SAMPLES))
    assert taught.padded_because == ""
    assert all(rows == 1 and width <= 40 for rows, width in shapes)
    assert sum(width for _, width in shapes) == report.tokens == report.tokens_padded


def test_a_step_moves_sampled_tokens_towards_their_advantage() -> None:
    model = llama()
    good, bad = (
        own_logprobs(model, replace(s, advantage=a), 1.0)
        for s, a in zip(SAMPLES, (1.0, -1.0), strict=False)
    )
    learner(model).step([good, bad], 2)
    for s, direction in ((good, 1), (bad, -1)):
        now = own_logprobs(model, s, 1.0)
        change = sum(
            a - b for a, b, m in zip(now.logprobs, s.logprobs, s.loss_mask, strict=True) if m
        )
        assert change * direction > 0


def test_gradients_are_clipped_to_the_length_asked_for() -> None:
    looking = Gradients(grad_norm=0.01)
    gradient, report = looking.of(SAMPLES)
    assert report.grad_norm is not None
    assert report.grad_norm > 0.01
    assert gradient.norm().item() == pytest.approx(0.01, rel=1e-3)


def test_a_nan_in_the_gradient_leaves_weights_and_optimizer_as_they_were() -> None:
    taught = learner()
    taught.step(SAMPLES, len(SAMPLES))
    before, moments = weights_of(taught.model), flat(taught.state_dict()["optimizer"])
    report = taught.step([replace(SAMPLES[0], advantage=NAN), *SAMPLES[1:]], len(SAMPLES))
    assert report.skipped
    assert (report.loss, report.grad_norm) == (None, None)
    assert taught.skipped_steps == 1
    assert torch.equal(before, weights_of(taught.model))
    assert torch.equal(moments, flat(taught.state_dict()["optimizer"]))
    assert not taught.step(SAMPLES, len(SAMPLES)).skipped
    assert weights_of(taught.model).isfinite().all()


def flat(optimizer: dict[str, Any]) -> Tensor:
    return torch.cat([v.flatten() for entry in optimizer["state"].values() for v in entry.values()])


def test_gradients_left_by_a_step_that_failed_are_forgotten() -> None:
    looking = Gradients()
    clean, _ = Gradients().of(SAMPLES)
    for parameter in looking.learner.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    assert torch.equal(looking.of(SAMPLES)[0], clean)
    assert all(p.grad is None for p in looking.learner.model.parameters())


def test_two_learners_with_equal_models_stay_equal_to_the_bit() -> None:
    left, right = learner(llama(3)), learner(llama(3))
    for _ in range(3):
        left.step(SAMPLES, len(SAMPLES))
        right.step(SAMPLES, len(SAMPLES))
    assert torch.equal(weights_of(left.model), weights_of(right.model))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_learner_that_was_saved_goes_on_to_the_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    unbroken = learner(llama().to(dtype))
    unbroken.step(SAMPLES, len(SAMPLES))
    unbroken.save(tmp_path)
    copy = llama(9).to(dtype)
    copy.load_state_dict(unbroken.model.state_dict())
    resumed = learner(copy)
    resumed.load(tmp_path)
    assert torch.equal(
        flat(resumed.state_dict()["optimizer"]), flat(unbroken.state_dict()["optimizer"])
    )
    for _ in range(2):
        unbroken.step(SAMPLES, len(SAMPLES))
        resumed.step(SAMPLES, len(SAMPLES))
    assert torch.equal(weights_of(resumed.model), weights_of(unbroken.model))


def test_a_resumed_learner_keeps_its_own_learning_rate() -> None:
    saved = learner(lr=1e-3)
    saved.step(SAMPLES, len(SAMPLES))
    resumed = learner(lr=1e-5)
    resumed.load_state_dict(saved.state_dict())
    assert resumed._optimizer.param_groups[0]["lr"] == 1e-5


def test_a_checkpoint_without_its_optimizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="start Adam from nothing"):
        learner().load(tmp_path)
    with pytest.raises(RunError, match="start Adam from nothing"):
        learner().load_state_dict({})


def test_the_optimizer_of_another_model_or_precision_is_refused() -> None:
    state = learner(llama(tied=True)).state_dict()
    with pytest.raises(RunError, match="another model"):
        learner(llama()).load_state_dict(state)
    with pytest.raises(RunError, match="another model or precision"):
        learner(llama(tied=True).to(torch.bfloat16)).load_state_dict(state)


def test_in_half_precision_steps_too_small_for_the_weights_add_up() -> None:
    taught = learner(llama().to(torch.bfloat16), lr=1e-6)
    before = weights_of(taught.model)
    exact = torch.cat([m.flatten() for m in taught.state_dict()["exact"]]).clone()
    assert torch.equal(exact.to(torch.bfloat16), before)
    for _ in range(3):
        taught.step(SAMPLES, len(SAMPLES))
    moved = torch.cat([m.flatten() for m in taught.state_dict()["exact"]]) - exact
    assert moved.abs().median() > 1e-6
    assert torch.equal(
        torch.cat([m.flatten() for m in taught.state_dict()["exact"]]).to(torch.bfloat16),
        weights_of(taught.model),
    )
    assert all(p.grad is None for p in taught.model.parameters())


def test_in_half_precision_micro_batches_add_up_in_full() -> None:
    model = [llama().to(torch.bfloat16) for _ in range(2)]
    whole, _ = Gradients(model[0]).of(SAMPLES)
    cut, _ = Gradients(model[1], tokens_per_micro_batch=27).of(SAMPLES)
    assert whole.dtype == torch.float32
    assert same(cut, whole, 0.02)


@pytest.mark.parametrize("packing", [True, False])
def test_recomputing_activations_changes_no_gradient(packing: bool) -> None:
    plain, _ = Gradients(llama()).of(SAMPLES)
    frugal = Gradients(llama(), checkpointing="layers", packing=packing)
    calls: list[int] = []
    inner = frugal.learner.model.model.layers[0].mlp
    inner.register_forward_pre_hook(lambda *_: calls.append(1))
    recomputed, report = frugal.of(SAMPLES)
    assert same(recomputed, plain)
    assert len(calls) == 2 * report.micro_batches
    assert not any(module.training for module in frugal.learner.model.modules())


@pytest.mark.parametrize("checkpointing", ["none", "layers", "offload"])
def test_dropout_is_off_while_training(checkpointing: str) -> None:
    model = llama(attention_dropout=0.5).train()
    gradient, _ = Gradients(model, checkpointing=checkpointing).of(SAMPLES)
    plain, _ = Gradients(llama()).of(SAMPLES)
    assert same(gradient, plain)


def test_frozen_weights_stay() -> None:
    model = llama()
    model.model.embed_tokens.requires_grad_(False)
    before = model.model.embed_tokens.weight.clone()
    learner(model).step(SAMPLES, len(SAMPLES))
    assert torch.equal(model.model.embed_tokens.weight, before)


class Doubled(LlamaForCausalLM):
    """Its logits are twice what its head says."""

    def forward(self, **inputs: Any) -> Any:
        output = super().forward(**inputs)
        output.logits = output.logits * 2
        return output


def test_a_model_that_the_learner_would_train_wrongly_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"Doubled: log-probs .* off those of its own logits"):
        learner(Doubled(llama().config))


def test_an_unknown_loss_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean grpo"):
        learner(loss="gpro")


def test_a_row_above_the_cap_is_refused_and_nothing_moves() -> None:
    taught = learner(tokens_per_micro_batch=26)
    before = weights_of(taught.model)
    with pytest.raises(
        RunError, match=r"row 2 has 27 tokens, above the cap of 26\. Rows are never"
    ):
        taught.step(SAMPLES, len(SAMPLES))
    assert torch.equal(before, weights_of(taught.model))
    taught.step([s for s in SAMPLES if len(s.input_ids) <= taught.cap], len(SAMPLES))


def test_the_optimizers_states_are_there_before_the_first_step_and_change_nothing() -> None:
    taught, untaught = learner(weight_decay=0.5), llama()
    assert torch.equal(weights_of(taught.model), weights_of(untaught))
    state = taught.state_dict()["optimizer"]["state"]
    assert len(state) == len(list(untaught.parameters()))
    assert not flat(taught.state_dict()["optimizer"]).any()
    plain = torch.optim.AdamW(untaught.parameters(), lr=1e-3, weight_decay=0.5, fused=True)
    looking = Gradients(lr=1e-3, weight_decay=0.5)
    gradient, _ = looking.of(SAMPLES)
    parts = gradient.split([p.numel() for p in untaught.parameters()])
    for parameter, part in zip(untaught.parameters(), parts, strict=True):
        parameter.grad = part.view_as(parameter)
    plain.step()
    assert same(weights_of(looking.learner.model), weights_of(untaught), 1e-7)


@pytest.mark.parametrize("name", ["adamw", "adamw8bit"])
def test_states_made_beforehand_are_those_that_a_first_step_makes(name: str) -> None:
    if name == "adamw8bit":
        pytest.importorskip("bitsandbytes")

    def stepped(beforehand: bool) -> list[Tensor]:
        draw = torch.Generator().manual_seed(0)
        points = [Parameter(torch.randn(shape, generator=draw)) for shape in ((90, 60), (7,))]
        optimizer = build(name, points, lr=1e-2, weight_decay=0.1)
        if beforehand:
            allocate(optimizer)
        for _ in range(3):
            for point in points:
                point.grad = torch.randn(point.shape, generator=draw)
            optimizer.step()
        state = optimizer.state.values()
        return [*points, *(torch.as_tensor(part) for parts in state for part in parts.values())]

    assert all(torch.equal(*pair) for pair in zip(stepped(True), stepped(False), strict=True))


def test_a_sample_whose_first_token_is_trained_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing before it"):
        learner().step([Sample((1, 2), (1, 1), (NAN, NAN), 1.0)], 1)


def test_a_step_needs_neither_gymnasium_nor_pydantic_nor_vllm() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['gymnasium', 'pydantic', 'vllm']));"
        "import agentrl.update, agentrl.weights"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_padding_is_invisible_to_a_step() -> None:
    narrow, wide = SAMPLES[0], sample(8, 100, 1, 0.0)
    alone, _ = Gradients().of([narrow], kept=2)
    padded, report = Gradients(packing=False).of([narrow, wide], kept=2)
    assert report.micro_batches == 1
    assert report.tokens_padded == 2 * len(wide.input_ids)
    assert functional.cosine_similarity(alone, padded, dim=0) > 1 - 1e-6
    assert same(padded, alone)
