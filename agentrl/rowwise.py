"""Attention by rows: packed rows see themselves alone, without a mask.

In    a model of transformers, ids of rows laid one after the other, their lengths
Out   hidden states as if each row had gone through the model alone
Not   soft caps, sinks, position biases or dropout in attention: refused, never left out

The decoder hands the edges of the rows to its attention function as a keyword, so that layers
that are computed again in backward see the same edges. `by_rows` must then still hold: it
covers backward too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

from agentrl.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "agentrl-rows"
"""How transformers knows this attention."""

HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Edges:
    """Where packed rows begin and end."""

    lengths: tuple[int, ...]
    positions: Tensor
    """[1, tokens], from 0 in every row."""
    offsets: Tensor
    """[rows + 1]: first token of each row, and the end; 32 bits, as kernels want them."""

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Edges:
        """Edges of rows that follow each other without a gap."""
        positions = torch.cat([torch.arange(length) for length in lengths])[None]
        offsets = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
        placed = (t.to(device, non_blocking=True) for t in (positions, offsets))
        return cls(tuple(lengths), *placed)


def by_rows(model: PreTrainedModel) -> AbstractContextManager[None]:
    """Within, the model attends by rows; then as before, for whoever else plays with it."""
    return attending(model, NAME, attend)


@contextmanager
def attending(model: PreTrainedModel, name: str, attention: Callable[..., Any]) -> Iterator[None]:
    """Within, a model uses an attention that transformers is told of under a name."""
    AttentionInterface.register(name, attention)
    config = model.config.get_text_config()
    own = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = own


def hidden_states(model: PreTrainedModel, ids: Tensor, lengths: Sequence[int]) -> Tensor:
    """[1, tokens, width] of packed rows.

    Neither a mask nor a cache: with either, transformers takes the rows for one sequence.
    """
    edges = Edges.of(lengths, ids.device)
    with by_rows(model):
        output = model.get_decoder()(
            input_ids=ids,
            position_ids=edges.positions,
            attention_mask=None,
            use_cache=False,
            packed_rows=edges,
        )
    found: Tensor = output.last_hidden_state
    return found


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_rows: Edges | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer: [1, heads, tokens, width] in, heads inside out."""
    _refuse(module, packed_rows, options)
    assert packed_rows is not None
    kernel = next(k for k in KERNELS if k.takes(query, value))
    return kernel.attend(query, key, value, packed_rows, scaling, sliding_window), None


def _refuse(module: nn.Module, edges: Edges | None, options: dict[str, Any]) -> None:
    odd = [k for k in ("softcap", "s_aux", "position_bias") if options.get(k) is not None]
    if options.get("dropout"):
        odd.append("dropout")
    if options.get("is_causal") is False:
        odd.append("later tokens in sight")
    if edges is None:
        odd = ["no word of where rows begin"]
    if odd:
        raise UsageError(
            f"{type(module).__name__}: attention with {', '.join(odd)}. Packed rows are computed "
            "with plain causal attention. Train with padded rows."
        )


def _by_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Edges,
    scale: float | None,
    window: int | None,
) -> Tensor:
    """One call of torch's attention for each row, or for neighbours of one length."""
    runs = [(len(list(same)), length) for length, same in groupby(edges.lengths)]
    sizes = [rows * length for rows, length in runs]
    parts = []
    split = (x.split(sizes, 2) for x in (query, key, value))
    for (rows, length), *run in zip(runs, *split, strict=True):
        q, k, v = (x[0].unflatten(1, (rows, length)).transpose(0, 1) for x in run)
        band = _band(length, window, query.device) if window and length > window else None
        parts.append(plain(q, k, v, band, scale).transpose(1, 2).flatten(0, 1))
    return torch.cat(parts)[None]


def plain(
    query: Tensor, key: Tensor, value: Tensor, band: Tensor | None, scale: float | None
) -> Tensor:
    """Torch's attention, causal unless a band says what each token sees.

    Off the CPU, only half precision without a mask has a kernel for grouped heads. Elsewhere
    they are copied: torch would hold all scores at once.
    """
    group = query.shape[1] // key.shape[1]
    if group > 1 and not query.is_cpu and (band is not None or query.dtype not in HALF):
        key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    return functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=band,
        is_causal=band is None,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def _band(length: int, window: int, device: torch.device) -> Tensor:
    """True where a token sees: itself and the window - 1 tokens before it."""
    seen = torch.ones(length, length, dtype=torch.bool, device=device).tril_()
    return seen.triu_(1 - window)


@cache
def _torch_varlen() -> Callable[..., Tensor] | None:
    """None where this torch lacks it or does not know windows and grouped heads yet."""
    try:
        found = import_module("torch.nn.attention.varlen").varlen_attn
    except (ImportError, AttributeError):
        return None
    known = inspect.signature(found).parameters
    return found if {"scale", "window_size", "enable_gqa"} <= known.keys() else None


@cache
def _flash_attn() -> Callable[..., Tensor] | None:
    try:
        found: Callable[..., Tensor] = import_module("flash_attn").flash_attn_varlen_func
    except (ImportError, AttributeError):
        return None
    return found


def _arguments(
    query: Tensor, key: Tensor, value: Tensor, edges: Edges, window: int | None
) -> tuple[list[Any], tuple[int, int]]:
    """What the kernels for rows of any length take by position, and what a token sees."""
    tokens = [x[0].transpose(0, 1).contiguous() for x in (query, key, value)]
    longest = max(edges.lengths)
    seen = (window - 1 if window and longest > window else -1, 0)
    return [*tokens, edges.offsets, edges.offsets, longest, longest], seen


def _by_torch_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Edges,
    scale: float | None,
    window: int | None,
) -> Tensor:
    kernel = _torch_varlen()
    assert kernel is not None
    given, seen = _arguments(query, key, value, edges, window)
    gqa = query.shape[1] != key.shape[1]
    return kernel(*given, scale=scale, window_size=seen, enable_gqa=gqa)[None]


def _by_flash_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Edges,
    scale: float | None,
    window: int | None,
) -> Tensor:
    kernel = _flash_attn()
    assert kernel is not None
    given, seen = _arguments(query, key, value, edges, window)
    return kernel(*given, softmax_scale=scale, causal=True, window_size=seen)[None]


def _flash_takes(query: Tensor, value: Tensor) -> bool:
    """Half precision on CUDA, one head width of at most 256 in steps of 8."""
    width = query.shape[3]
    fits = width == value.shape[3] and width % 8 == 0 and width <= 256
    return fits and query.is_cuda and query.dtype in HALF


@dataclass(frozen=True, slots=True)
class Kernel:
    """A way to compute attention by rows."""

    name: str
    takes: Callable[[Tensor, Tensor], bool]
    """Whether it is there and computes such queries and values."""
    attend: Callable[[Tensor, Tensor, Tensor, Edges, float | None, int | None], Tensor]
    """(query, key, value, edges, scale, window) -> [1, tokens, heads, width]."""


KERNELS = (
    Kernel("torch varlen", lambda *x: _flash_takes(*x) and bool(_torch_varlen()), _by_torch_varlen),
    Kernel("flash-attn", lambda *x: _flash_takes(*x) and bool(_flash_attn()), _by_flash_attn),
    Kernel("sdpa by row", lambda *_: True, _by_sdpa),
)
"""The first that takes the tensors at hand computes them."""
