"""Attention by rows: each row sees itself alone, and the model is given back as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import CheckpointError

from agentrl.errors import UsageError
from agentrl.recompute import recomputing
from agentrl.rowwise import KERNELS, Edges, _torch_varlen, attend, by_rows, hidden_states
from tests.models import VOCABULARY, llama

CPU = torch.device("cpu")
LENGTHS = (9, 9, 2, 30, 1, 1)
HEADS, GROUPS, WIDTH = 4, 2, 8


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def packed(lengths: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    tokens = sum(lengths)
    heads = (HEADS, GROUPS, GROUPS)
    return [draw(i, 1, h, tokens, WIDTH).to(dtype) for i, h in enumerate(heads)]


def written_out(
    query: Tensor, key: Tensor, value: Tensor, lengths: tuple[int, ...], window: int, scale: float
) -> Tensor:
    """Every score of every pair, most of them forbidden."""
    row = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    place = torch.cat([torch.arange(length) for length in lengths])
    behind = place[:, None] - place
    seen = (row[:, None] == row) & (behind >= 0) & (behind < window)
    key, value = (x.repeat_interleave(HEADS // GROUPS, 1) for x in (key, value))
    scores = (query @ key.transpose(2, 3) * scale).masked_fill(~seen, -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2)


@pytest.mark.parametrize("scale", [None, 0.1])
@pytest.mark.parametrize("window", [None, 1, 4, 9, 100])
def test_each_token_sees_its_own_row_up_to_itself_and_within_the_window(
    window: int | None, scale: float | None
) -> None:
    q, k, v = packed(LENGTHS)
    edges = Edges.of(LENGTHS, CPU)
    got, _ = attend(
        nn.Identity(), q, k, v, None, packed_rows=edges, scaling=scale, sliding_window=window
    )
    want = written_out(q, k, v, LENGTHS, window or 1000, scale or WIDTH**-0.5)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_edges_tell_where_rows_begin() -> None:
    edges = Edges.of((2, 1, 3), CPU)
    assert edges.positions.tolist() == [[0, 1, 0, 0, 1, 2]]
    assert edges.offsets.tolist() == [0, 2, 3, 6]
    assert edges.offsets.dtype == torch.int32


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"softcap": 50.0}, "softcap"),
        ({"s_aux": torch.zeros(4)}, "s_aux"),
        ({"position_bias": torch.zeros(4)}, "position_bias"),
        ({"dropout": 0.1}, "dropout"),
        ({"is_causal": False}, "later tokens"),
        ({"packed_rows": None}, "where rows begin"),
    ],
)
def test_what_it_does_not_compute_is_refused(options: dict[str, Any], words: str) -> None:
    given = {"packed_rows": Edges.of(LENGTHS, CPU)} | options
    with pytest.raises(UsageError, match=rf"Identity: attention with .*{words}"):
        attend(nn.Identity(), *packed(LENGTHS), None, **given)


def test_the_model_has_its_own_attention_again_whatever_happens() -> None:
    model = llama()
    own = model.config._attn_implementation
    with by_rows(model), by_rows(model):
        assert model.config._attn_implementation != own
    assert model.config._attn_implementation == own
    with pytest.raises(ZeroDivisionError), by_rows(model):
        divmod(1, 0)
    assert model.config._attn_implementation == own


def test_a_model_that_attends_by_rows_without_edges_says_so() -> None:
    model = llama()
    with by_rows(model), pytest.raises(UsageError, match="where rows begin"):
        model(torch.arange(4)[None])


def ids() -> Tensor:
    return torch.arange(sum(LENGTHS))[None] * 7 % VOCABULARY


def test_layers_that_are_computed_again_see_the_same_edges() -> None:
    found = []
    for again in (False, True):
        model = llama()
        with by_rows(model):
            if again:
                with recomputing(model):
                    hidden_states(model, ids(), LENGTHS).square().sum().backward()
            else:
                hidden_states(model, ids(), LENGTHS).square().sum().backward()
        found.append([p.grad for p in model.model.parameters()])
    for plain, recomputed in zip(*found, strict=True):
        assert torch.equal(plain, recomputed)


def test_computing_again_with_another_attention_is_an_error_and_never_another_gradient() -> None:
    model = llama()
    with recomputing(model):
        hidden = hidden_states(model, ids(), LENGTHS)
        with pytest.raises(CheckpointError):
            hidden.square().sum().backward()


@pytest.mark.skipif(_torch_varlen() is None, reason="this torch has no such kernel")
@pytest.mark.parametrize("window", [None, 4])
def test_kernels_for_half_precision_get_what_they_expect(window: int | None) -> None:
    """Shapes only: nothing is computed, so that no accelerator is needed."""
    kernel = next(k for k in KERNELS if k.name == "torch varlen")
    with FakeTensorMode(allow_non_fake_inputs=True):
        q, k, v = (x.requires_grad_() for x in packed(LENGTHS, torch.bfloat16))
        assert not kernel.takes(q, v)
        out = kernel.attend(q, k, v, Edges.of(LENGTHS, q.device), None, window)
        out.sum().backward()
    assert out.shape == (1, sum(LENGTHS), HEADS, WIDTH)
    assert [x.grad.shape for x in (q, k, v)] == [x.shape for x in (q, k, v)]


@pytest.mark.gpu
@pytest.mark.parametrize("window", [None, 4])
def test_kernels_on_an_accelerator_agree_with_the_plain_ones(window: int | None) -> None:
    found = []
    for kernel in KERNELS:
        q, k, v = (x.cuda().requires_grad_() for x in packed(LENGTHS, torch.bfloat16))
        if kernel.takes(q, v):
            edges = Edges.of(LENGTHS, q.device)
            out = kernel.attend(q, k, v, edges, None, window)
            out.square().sum().backward()
            found.append([out, q.grad, k.grad, v.grad])
    assert len(found) > 1
    for other in found[1:]:
        for got, want in zip(other, found[0], strict=True):
            torch.testing.assert_close(got, want, rtol=0.05, atol=0.05)
