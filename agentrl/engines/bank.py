"""Bank: keys and values of token runs, one run a row of a slab, for all layers at once.

In    what a model's layers compute for the tokens that are fed
Out   views that attention reads; rows that can be taken, swapped and given back
Not   a memory of which tokens a row holds: cache.py keeps that

A slab has rows of one length and never grows, so that nothing is copied but a run that has
outgrown its row, and memory is what the rows in use need.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

LEAST = 128
"""Tokens of the shortest row. Rows have this, half as much again, and doubles of these two."""
KEPT_BYTES = 1 << 28
"""Memory up to this stays at hand for the next cohort; more is given back to the update."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one token's keys and values look like in a model."""

    layers: int
    heads: int
    """Key-value heads."""
    width: int
    """Numbers per head."""
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_per_token(self) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.heads * self.width * self.dtype.itemsize


class Slab:
    """A tensor [layers, 2, rows, heads, tokens, width]; compared by identity."""

    def __init__(self, data: Tensor) -> None:
        """All rows are free."""
        self.data = data
        self.rows, self.tokens = int(data.shape[2]), int(data.shape[4])
        self.free = list(range(self.rows))
        """In ascending order."""

    @property
    def bytes(self) -> int:
        """Memory that is set aside."""
        return self.data.numel() * self.data.element_size()

    def write(
        self, layer: int, rows: Tensor, offsets: Tensor, keys: Tensor, values: Tensor
    ) -> None:
        """Store what a layer computed: token i goes to `rows[i]` at `offsets[i]`."""
        self.data[layer, 0][rows, :, offsets] = keys
        self.data[layer, 1][rows, :, offsets] = values

    def read(self, layer: int, rows: slice, tokens: int) -> tuple[Tensor, Tensor]:
        """Views of keys and values, [rows, heads, tokens, width]."""
        keys, values = self.data[layer, :, rows, :, :tokens]
        return keys, values

    def pick(self, layer: int, rows: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
        """The same of any rows, copied."""
        return self.data[layer, 0][rows, :, :tokens], self.data[layer, 1][rows, :, :tokens]

    def swap(self, left: Sequence[int], right: Sequence[int], tokens: int) -> None:
        """Exchange rows, up to so many tokens of each."""
        device = self.data.device
        source = torch.tensor([*left, *right], device=device)
        target = torch.tensor([*right, *left], device=device)
        self.data[:, :, target, :, :tokens] = self.data[:, :, source, :, :tokens]


class Spot(NamedTuple):
    """A row of a slab."""

    slab: Slab
    row: int


class Bank:
    """Slabs for rows of all lengths."""

    def __init__(self, shape: Shape, keep: int = KEPT_BYTES) -> None:
        """An empty bank, which keeps at most so many bytes of slabs that are gone."""
        self.shape = shape
        self._most = keep
        self.slabs: list[Slab] = []
        self._spare: list[Tensor] = []
        """Of slabs that are gone, the latest last."""

    @property
    def bytes(self) -> int:
        """Memory that is set aside; on a CPU the system gives it as it is written to."""
        return sum(slab.bytes for slab in self.slabs)

    def cost(self, needs: Sequence[int]) -> int:
        """Bytes that `take` would add."""
        missing = self._missing(needs)
        return sum(size * count for size, count in missing.items()) * self.shape.bytes_per_token

    def take(self, needs: Sequence[int], room: int = 0, expected: int = 0) -> list[Spot]:
        """A row for each number of tokens: free ones, the lowest first, or those of a new slab.

        Args:
            needs: Tokens of each.
            room: Bytes that rows for later may take. So many rows that are taken one by one lie
                in few slabs: each slab is a product of its own in every layer.
            expected: Rows that there will be in the end, of all sizes.
        """
        for size, count in self._missing(needs).items():
            row = size * self.shape.bytes_per_token
            here = sum(slab.rows for slab in self.slabs if slab.tokens == size)
            more = max(here // 2, self._for_all(expected - here))
            self.slabs.append(Slab(self._data(max(count, min(more, room // row)), size)))
        return [self._first(row_tokens(need)) for need in needs]

    def _for_all(self, rows: int) -> int:
        # Where memory is taken as it is written to, rows that nobody comes for cost nothing.
        return rows if self.shape.device.type == "cpu" else 0

    def give(self, spot: Spot) -> None:
        """A row is free again; a slab without a run is gone."""
        slab = spot.slab
        slab.free.append(spot.row)
        slab.free.sort()
        if len(slab.free) == slab.rows:
            self.slabs.remove(slab)
            self._keep(slab)

    def clear(self) -> None:
        """All rows are free."""
        slabs, self.slabs = self.slabs, []
        for slab in slabs:
            self._keep(slab)

    def _keep(self, slab: Slab) -> None:
        self._spare.append(slab.data)
        while sum(data.nbytes for data in self._spare) > self._most:
            self._spare.pop(0)

    def _missing(self, needs: Sequence[int]) -> Counter[int]:
        missing = Counter(row_tokens(need) for need in needs)
        for slab in self.slabs:
            missing[slab.tokens] -= len(slab.free)
        return +missing

    def _first(self, size: int) -> Spot:
        slab = next(slab for slab in self.slabs if slab.tokens == size and slab.free)
        return Spot(slab, slab.free.pop(0))

    def _data(self, rows: int, tokens: int) -> Tensor:
        s = self.shape
        size = (s.layers, 2, rows, s.heads, tokens, s.width)
        for i, data in enumerate(self._spare):
            if data.shape == size:
                return self._spare.pop(i)
        return _zeros(size, s.dtype, s.device)


def row_tokens(need: int) -> int:
    """Tokens of the shortest row with room for so many."""
    size = LEAST
    while size < need:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def _zeros(size: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros, not whatever was there: a masked weight of 0 times NaN would be NaN."""
    if device.type != "cpu":
        return torch.zeros(*size, dtype=dtype, device=device)
    # Straight from the system, in pages, so that memory is taken when and where it is written
    # to. In huge pages, which NumPy asks for, a row's first token would take all of its row.
    raw = mmap.mmap(-1, int(np.prod(size)) * dtype.itemsize)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        raw.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(raw, dtype=dtype).view(*size)
