"""Attention over shared and own runs, for tokens of many episodes in one row.

In    queries, keys and values of the fed tokens; a Feed that says who may see what
Out   attention outputs, as a model of transformers expects them from its backend
Not   sliding windows, soft caps or sinks: refused, they would be computed wrong

The tokens of all episodes are laid in one row [1, tokens] without padding, so that every
other layer of the model computes on real tokens alone. A single token of each of many
episodes looks where keys lie (Beside): what episodes have in common is read once, their
queries stand side by side in one product with it. Many new tokens of an episode are worth
bringing their keys together first (Gathered).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from agentrl.engines.bank import Slab
from agentrl.errors import EngineError

Ints = NDArray[np.int64]
NAME = "agentrl"
"""How transformers knows this attention."""


class Look(Protocol):
    """How some of the fed tokens see their past."""

    def __call__(self, layer: int, q: Tensor) -> Tensor:
        """Scaled queries [n, key-value heads, group, C] to outputs of the same shape."""
        ...


@dataclass(frozen=True, slots=True)
class Section:
    """Fed tokens that lie in one slab."""

    tokens: slice
    slab: Slab
    rows: Tensor
    offsets: Tensor
    look: Look


@dataclass(frozen=True, slots=True)
class Feed:
    """One forward pass: where its tokens are stored and what each may see."""

    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Tokens laid out for a batched product: `width` queries for each of some rows."""

    rows: int
    width: int
    places: Tensor | None
    """Where each query stands among rows * width; None where they fill it in order."""

    @classmethod
    def of(cls, row: Ints, rows: int, device: torch.device) -> Grid:
        """Lay tokens out by the row that each belongs to."""
        counts = np.bincount(row, minlength=rows)
        width = int(counts.max())
        order = np.argsort(row, kind="stable")
        firsts = np.cumsum(counts) - counts
        rank = np.empty_like(row)
        rank[order] = np.arange(len(row)) - firsts[row[order]]
        places = row * width + rank
        in_order = len(places) == rows * width and bool((np.diff(places) == 1).all())
        return cls(rows, width, None if in_order else torch.from_numpy(places).to(device))

    def spread(self, x: Tensor) -> Tensor:
        """[N, heads, group, C] to [rows, heads, width * group, C]; empty places are 0."""
        _, heads, group, c = x.shape
        if self.places is not None:
            count = self.rows * self.width
            x = x.new_zeros((count, heads, group, c)).index_copy_(0, self.places, x)
        if self.width == 1:
            return x
        x = x.view(self.rows, self.width, heads, group, c).transpose(1, 2)
        return x.reshape(self.rows, heads, self.width * group, c)

    def gather(self, x: Tensor, group: int) -> Tensor:
        """The inverse of `spread`."""
        if self.width > 1:
            rows, heads, _, c = x.shape
            x = x.view(rows, heads, self.width, group, c).transpose(1, 2)
            x = x.reshape(-1, heads, group, c)
        return x if self.places is None else x.index_select(0, self.places)


@dataclass(frozen=True, slots=True)
class View:
    """Which rows of a slab some tokens look at, and how much of each."""

    slab: Slab
    row: Ints
    """The slab's row of each token."""
    bound: Ints
    """How many of the row's tokens each may see."""


@dataclass(frozen=True, slots=True)
class Part:
    """A View laid out."""

    slab: Slab
    rows: slice
    tokens: int
    """Longest bound: nothing behind it is read."""
    grid: Grid


@dataclass(frozen=True, slots=True)
class Beside:
    """Keys are read where they lie, in as many products as there are parts."""

    parts: tuple[Part, ...]
    mask: Tensor
    """[n, 1, 1, tokens of all parts], 0 or -inf."""

    @classmethod
    def of(cls, views: Sequence[View], device: torch.device) -> Beside:
        """Lay views out; at least one shows every token something."""
        seen = [view for view in views if view.bound.any()]
        parts = tuple(_part(view, device) for view in seen)
        hidden = [
            np.arange(part.tokens) >= view.bound[:, None]
            for part, view in zip(parts, seen, strict=True)
        ]
        flags = torch.from_numpy(np.concatenate(hidden, -1)[:, None, None]).to(device)
        mask = torch.zeros(flags.shape, device=device).masked_fill_(flags, -torch.inf)
        return cls(parts, mask)

    def __call__(self, layer: int, q: Tensor) -> Tensor:
        """Scores of all parts, one softmax, and what each part has to say."""
        group = q.shape[2]
        read = [part.slab.read(layer, part.rows, part.tokens) for part in self.parts]
        scores = torch.cat(
            [
                part.grid.gather(torch.matmul(part.grid.spread(q), keys.transpose(2, 3)), group)
                for part, (keys, _) in zip(self.parts, read, strict=True)
            ],
            -1,
        )
        weights = torch.softmax(scores.add_(self.mask), -1, dtype=torch.float32).to(q.dtype)
        out = torch.zeros_like(q)
        split = torch.split(weights, [part.tokens for part in self.parts], -1)
        for part, (_, values), share in zip(self.parts, read, split, strict=True):
            out += part.grid.gather(torch.matmul(part.grid.spread(share), values), group)
        return out


@dataclass(frozen=True, slots=True)
class Pick:
    """Beginnings of a slab's rows, one for each row of a grid."""

    slab: Slab
    rows: Tensor
    tokens: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """Keys of all that a row may see are brought together."""

    picks: tuple[Pick, ...]
    grid: Grid
    mask: Tensor
    """[rows, 1, width * group, tokens of all picks], 0 or -inf."""

    @classmethod
    def of(cls, views: Sequence[View], row: Ints, inside: Ints, group: int) -> Gathered:
        """Lay tokens out, of which the last view's grow: `inside` is a token's place in its row.

        Views say what each row's first token may see, of `row` which row a token belongs to.
        """
        device = views[0].slab.data.device
        grid = Grid.of(row, len(views[0].row), device)
        own = len(views) - 1
        seen, hidden = [], []
        for i, view in enumerate(views):
            grown = view.bound[:, None] + (np.arange(grid.width) if i == own else 0)
            tokens = int((view.bound[row] + (inside if i == own else 0)).max())
            if tokens:
                seen.append(Pick(view.slab, torch.from_numpy(view.row).to(device), tokens))
                bound = np.broadcast_to(grown, (len(view.row), grid.width))
                hidden.append(np.arange(tokens) >= bound[..., None])
        flags = torch.from_numpy(np.concatenate(hidden, -1)).to(device)[:, None]
        flags = flags.repeat_interleave(group, 2)
        mask = torch.zeros(flags.shape, dtype=views[0].slab.data.dtype, device=device)
        return cls(tuple(seen), grid, mask.masked_fill_(flags, -torch.inf))

    def __call__(self, layer: int, q: Tensor) -> Tensor:
        """One attention with a mask."""
        picked = [pick.slab.pick(layer, pick.rows, pick.tokens) for pick in self.picks]
        keys, values = (torch.cat(each, 2) for each in zip(*picked, strict=True))
        out = functional.scaled_dot_product_attention(
            self.grid.spread(q), keys, values, attn_mask=self.mask, scale=1.0
        )
        return self.grid.gather(out, q.shape[2])


def _part(view: View, device: torch.device) -> Part:
    low, high = int(view.row.min()), int(view.row.max()) + 1
    grid = Grid.of(view.row - low, high - low, device)
    return Part(view.slab, slice(low, high), int(view.bound.max()), grid)


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
    keys, values = key[0].transpose(0, 1), value[0].transpose(0, 1)
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    q = (query[0].transpose(0, 1) * scale).reshape(n, heads, group, -1)
    said = []
    for part in feed.sections:
        part.slab.write(layer, part.rows, part.offsets, keys[part.tokens], values[part.tokens])
        said.append(part.look(layer, q[part.tokens]))
    out = said[0] if len(said) == 1 else torch.cat(said)
    return out.reshape(1, n, heads * group, -1), None


def _refuse(module: nn.Module, options: dict[str, Any]) -> None:
    odd = [k for k in ("softcap", "s_aux", "position_bias") if options.get(k) is not None]
    if options.get("sliding_window"):
        odd.append("sliding_window")
    if odd:
        raise EngineError(
            f"{type(module).__name__}: attention with {', '.join(odd)}. The transformers engine "
            "computes plain attention only. Use --engine vllm."
        )
