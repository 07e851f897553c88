"""Bank: keys and values of token runs, one run a row, for all layers at once.

In    what a model's layers compute for the tokens that are fed
Out   views that attention reads; rows that can be moved
Not   a memory of which tokens a row holds: memory.py keeps that
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

STRIDE = 64
"""Runs grow by whole strides, so that few growths copy much."""


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


class Bank:
    """A tensor [layers, 2, rows, heads, tokens, width] that grows where it must."""

    def __init__(self, shape: Shape) -> None:
        """An empty bank."""
        self.shape = shape
        self._data = self._zeros(0, 0)

    @property
    def bytes(self) -> int:
        """Memory that is held."""
        return self._data.numel() * self._data.element_size()

    def reserve(self, rows: int, tokens: int) -> None:
        """Make room for at least `rows` runs of `tokens`, keeping what is there."""
        old_rows, old_tokens = self._data.shape[2], self._data.shape[4]
        if rows <= old_rows and tokens <= old_tokens:
            return
        if tokens > old_tokens:
            tokens = -(-max(tokens, old_tokens * 5 // 4) // STRIDE) * STRIDE
        grown = self._zeros(max(rows, old_rows), max(tokens, old_tokens))
        grown[:, :, :old_rows, :, :old_tokens] = self._data
        self._data = grown

    def write(
        self, layer: int, rows: Tensor, offsets: Tensor, keys: Tensor, values: Tensor
    ) -> None:
        """Store what a layer computed: token i goes to `rows[i]` at `offsets[i]`."""
        self._data[layer, 0][rows, :, offsets] = keys
        self._data[layer, 1][rows, :, offsets] = values

    def read(self, layer: int, rows: slice, tokens: int) -> tuple[Tensor, Tensor]:
        """Views of keys and values, [rows, heads, tokens, width]."""
        keys, values = self._data[layer, :, rows, :, :tokens]
        return keys, values

    def move(self, source: Sequence[int], target: Sequence[int], tokens: int) -> None:
        """Copy rows over others, all at once: swaps are allowed."""
        if source:
            device = self._data.device
            rows = torch.tensor(source, device=device), torch.tensor(target, device=device)
            self._data[:, :, rows[1], :, :tokens] = self._data[:, :, rows[0], :, :tokens]

    def _zeros(self, rows: int, tokens: int) -> Tensor:
        # Zeros, not whatever was there: a masked weight of 0 times NaN would be NaN.
        s = self.shape
        size = (s.layers, 2, rows, s.heads, tokens, s.width)
        return torch.zeros(size, dtype=s.dtype, device=s.device)
