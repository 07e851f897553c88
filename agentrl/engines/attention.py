"""Attention over shared and own runs, for tokens of many episodes in one row.

In    queries, keys and values of the fed tokens; a Feed that says who may see what
Out   attention outputs, as a model of transformers expects them from its backend
Not   sliding windows, soft caps or sinks: refused, they would be computed wrong

The tokens of all episodes are laid in one row [1, tokens] without padding, so that every
other layer of the model computes on real tokens alone. What episodes have in common is
stored once and read once: their queries stand side by side in one product with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentrl.engines.bank import Bank
from agentrl.errors import EngineError

Ints = NDArray[np.int64]
NAME = "agentrl"
"""How transformers knows this attention."""


@dataclass(frozen=True, slots=True)
class View:
    """Which rows of a bank some tokens look at, and where each query stands."""

    bank: Bank
    row: Ints
    """The bank's row of each fed token."""
    bound: Ints
    """How many of the row's tokens each fed token may see."""


@dataclass(frozen=True, slots=True)
class Part:
    """A View laid out for a batched product: `width` queries for every row of a bank."""

    bank: Bank
    rows: slice
    tokens: int
    """Longest bound: nothing behind it is read."""
    width: int
    places: Tensor | None
    """Where each query stands among rows * width; None where they fill it in order."""

    def spread(self, x: Tensor) -> Tensor:
        """[N, heads, group, C] to [rows, heads, width * group, C]; empty places are 0."""
        _, heads, group, c = x.shape
        if self.places is not None:
            count = (self.rows.stop - self.rows.start) * self.width
            x = x.new_zeros((count, heads, group, c)).index_copy_(0, self.places, x)
        if self.width == 1:
            return x
        x = x.view(-1, self.width, heads, group, c).transpose(1, 2)
        return x.reshape(-1, heads, self.width * group, c)

    def gather(self, x: Tensor, group: int) -> Tensor:
        """The inverse of `spread`."""
        if self.width > 1:
            rows, heads, _, c = x.shape
            x = x.view(rows, heads, self.width, group, c).transpose(1, 2)
            x = x.reshape(-1, heads, group, c)
        return x if self.places is None else x.index_select(0, self.places)


@dataclass(frozen=True, slots=True)
class Feed:
    """One forward pass: where its tokens are stored and what each may see."""

    bank: Bank
    rows: Tensor
    offsets: Tensor
    parts: tuple[Part, ...]
    mask: Tensor
    """[N, 1, 1, tokens of all parts], 0 or -inf."""


def feed(views: Sequence[View], device: torch.device) -> Feed:
    """Lay out a pass; its tokens are stored in the last view, just below its bounds."""
    seen = [v for v in views if v.bound.any()]
    parts = tuple(_part(v, device) for v in seen)
    hidden = [
        torch.arange(p.tokens, device=device) >= torch.from_numpy(v.bound).to(device)[:, None]
        for p, v in zip(parts, seen, strict=True)
    ]
    flags = torch.cat(hidden, -1)[:, None, None]
    mask = torch.zeros(flags.shape, device=device).masked_fill_(flags, -torch.inf)
    own = views[-1]
    rows, offsets = (torch.from_numpy(x).to(device) for x in (own.row, own.bound - 1))
    return Feed(own.bank, rows, offsets, parts, mask)


def _part(view: View, device: torch.device) -> Part:
    low, high = int(view.row.min()), int(view.row.max()) + 1
    row = view.row - low
    counts = np.bincount(row)
    width = int(counts.max())
    order = np.argsort(row, kind="stable")
    firsts = np.cumsum(counts) - counts
    rank = np.empty_like(row)
    rank[order] = np.arange(len(row)) - firsts[row[order]]
    places = row * width + rank
    in_order = len(places) == (high - low) * width and bool((np.diff(places) == 1).all())
    where = None if in_order else torch.from_numpy(places).to(device)
    return Part(view.bank, slice(low, high), int(view.bound.max()), width, where)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    feed: Feed,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Store the new keys and values, then attend to all that each token may see."""
    _refuse(module, options)
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    n, heads = query.shape[2], key.shape[1]
    group = query.shape[1] // heads
    feed.bank.write(
        layer, feed.rows, feed.offsets, key[0].transpose(0, 1), value[0].transpose(0, 1)
    )
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    q = (query[0].transpose(0, 1) * scale).reshape(n, heads, group, -1)
    read = [part.bank.read(layer, part.rows, part.tokens) for part in feed.parts]
    scores = torch.cat(
        [
            part.gather(torch.matmul(part.spread(q), keys.transpose(2, 3)), group)
            for part, (keys, _) in zip(feed.parts, read, strict=True)
        ],
        -1,
    )
    weights = torch.softmax(scores + feed.mask, -1, dtype=torch.float32).to(query.dtype)
    out = torch.zeros_like(q)
    split = torch.split(weights, [part.tokens for part in feed.parts], -1)
    for part, (_, values), share in zip(feed.parts, read, split, strict=True):
        out += part.gather(torch.matmul(part.spread(share), values), group)
    return out.view(1, n, heads * group, -1), None


def _refuse(module: nn.Module, options: dict[str, Any]) -> None:
    odd = [k for k in ("softcap", "s_aux", "position_bias") if options.get(k) is not None]
    if options.get("sliding_window"):
        odd.append("sliding_window")
    if odd:
        raise EngineError(
            f"{type(module).__name__}: attention with {', '.join(odd)}. The transformers engine "
            "computes plain attention only. Use --engine vllm."
        )
