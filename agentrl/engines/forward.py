"""Forward passes of tokens from many episodes through one borrowed model.

In    runs of a cache and the tokens that continue them
Out   hidden states; keys and values land in the cache's banks; logits
Not   a change to the model: its mode and attention are given back as they were
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

from agentrl.engines.attention import NAME, Ints, View, attend, feed
from agentrl.engines.bank import Bank, Shape
from agentrl.engines.cache import Cache, Run
from agentrl.head import head_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SCORE_BYTES = 1 << 25
"""Attention scores of one pass over prompts; longer prompts take several passes."""
Piece = tuple[int, int, int]
"""Which run, from where to where in its new tokens."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where tokens lie, a column per fact: see Run."""

    common: Ints
    group: Ints
    block: Ints
    own: Ints
    row: Ints

    @classmethod
    def after(cls, runs: Sequence[Run]) -> Places:
        """Where the next token of each run will lie."""
        facts = [(r.common, r.group, r.block, r.own, r.row) for r in runs]
        return cls(*np.array(facts, dtype=np.int64).T.copy())

    @property
    def columns(self) -> tuple[Ints, ...]:
        """All facts."""
        return self.common, self.group, self.block, self.own, self.row

    def at(self, index: Ints | slice) -> Places:
        """Some of the places."""
        return Places(*(column[index] for column in self.columns))


class Forward:
    """A model's passes over a cache."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Look at the model's shape; nothing is computed yet."""
        AttentionInterface.register(NAME, attend)
        self._model = model
        self._decoder = model.get_decoder()
        config = self._decoder.config
        self._heads = config.num_attention_heads
        shape = Shape(
            layers=config.num_hidden_layers,
            heads=getattr(config, "num_key_value_heads", None) or self._heads,
            width=getattr(config, "head_dim", None) or config.hidden_size // self._heads,
            dtype=model.dtype,
            device=model.device,
        )
        self.cache = Cache(shape)
        self.tokens = 0
        """Tokens fed so far."""

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """The model in evaluation mode with our attention."""
        config = self._decoder.config
        attention = config._attn_implementation
        config._attn_implementation = NAME
        try:
            with evaluating(self._model):
                yield
        finally:
            config._attn_implementation = attention

    def tensor(self, values: Ints) -> Tensor:
        """Indices on the model's device."""
        return torch.from_numpy(values).to(self.cache.shape.device)

    def step(self, bank: Bank, ids: Ints, places: Places) -> Tensor:
        """Hidden states of tokens that are stored in a bank, one per place."""
        own = places.own + 1
        views = (
            View(self.cache.common, np.zeros_like(places.row), places.common),
            View(self.cache.groups, places.block, places.group),
            View(bank, places.row, own),
        )
        out = self._decoder(
            input_ids=self.tensor(ids)[None],
            position_ids=self.tensor(places.common + places.group + places.own)[None],
            use_cache=False,
            feed=feed(views, self.cache.shape.device),
        )
        self.tokens += len(ids)
        hidden: Tensor = out.last_hidden_state[0]
        return hidden

    def read(self, bank: Bank, runs: Sequence[Run], news: Sequence[Sequence[int]]) -> Tensor:
        """Append new tokens to runs in a bank; the hidden state of each last one."""
        places = Places.after(runs)
        lengths = np.array([len(new) for new in news])
        bank.reserve(int(places.row.max()) + 1, int((places.own + lengths).max()))
        longest = int((places.common + places.group + places.own + lengths).max())
        limit = max(16, SCORE_BYTES // (4 * self._heads * longest))
        last = []
        for piece in pieces(lengths.tolist(), limit):
            ids = np.concatenate([news[i][start:stop] for i, start, stop in piece])
            inside = np.concatenate([np.arange(start, stop) for _, start, stop in piece])
            run = np.repeat([i for i, _, _ in piece], [stop - start for _, start, stop in piece])
            here = places.at(run)
            here.own[:] += inside
            hidden = self.step(bank, ids, here)
            last.append(hidden[self.tensor(np.flatnonzero(inside == lengths[run] - 1))])
        return torch.cat(last)

    def logits(self, hidden: Tensor) -> Tensor:
        """In float32, as the model's own head gives them."""
        head = head_of(self._model)
        out = functional.linear(hidden.to(head.weight.dtype), head.weight, head.bias).float()
        if head.scale != 1.0:
            out *= head.scale
        return torch.tanh(out / head.softcap) * head.softcap if head.softcap else out


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Evaluation mode, and then every module as it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def pieces(lengths: Sequence[int], limit: int) -> Iterator[list[Piece]]:
    """Cut runs, in order, into passes whose rows * longest piece is at most `limit`."""
    batch: list[Piece] = []
    width = 0
    for run, length in enumerate(lengths):
        for start in range(0, length, limit):
            stop = min(length, start + limit)
            width = max(width, stop - start)
            if batch and (len(batch) + 1) * width > limit:
                yield batch
                batch, width = [], stop - start
            batch.append((run, start, stop))
    if batch:
        yield batch
