"""Forward passes of tokens from many episodes through one borrowed model.

In    runs of a cache and the tokens that continue them
Out   hidden states; keys and values land in the cache's slabs; logits
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

from agentrl.engines.attention import NAME, Beside, Feed, Gathered, Ints, Section, View, attend
from agentrl.engines.bank import Shape, Slab, Spot
from agentrl.engines.cache import Cache, Reading, Run
from agentrl.head import head_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PASS_TOKENS = 4096
"""Tokens of one pass over prompts, padding to the longest included."""
MASK_BYTES = 1 << 26
"""Of the mask of such a pass. Longer prompts take several passes."""
UNEVEN = 16
"""Tokens by which the longest piece of a pass may exceed twice the shortest."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a reading's tokens that is computed in one pass."""

    reading: int
    start: int
    stop: int


@dataclass(slots=True)
class Places:
    """Where the next tokens of some runs lie, a column per fact; `own` moves on with them."""

    common: Ints
    group: Ints
    own: Ints
    spans: list[tuple[Slab, slice, Ints, list[View]]]
    """Of each slab: which of the runs lie there, in which rows, and what is shared."""

    @property
    def positions(self) -> Ints:
        """In the context."""
        return self.common + self.group + self.own


class Forward:
    """A model's passes over a cache."""

    def __init__(self, model: PreTrainedModel, limit: int) -> None:
        """Look at the model's shape; nothing is computed yet."""
        AttentionInterface.register(NAME, attend)
        self._model = model
        self._decoder = model.get_decoder()
        config = self._decoder.config
        heads = config.num_attention_heads
        shape = Shape(
            layers=config.num_hidden_layers,
            heads=getattr(config, "num_key_value_heads", None) or heads,
            width=getattr(config, "head_dim", None) or config.hidden_size // heads,
            dtype=model.dtype,
            device=model.device,
        )
        self._group = heads // shape.heads
        self.cache = Cache(shape, limit)
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

    def places(self, runs: Sequence[Run], ahead: Sequence[int]) -> Places:
        """Where runs go on that have so many tokens more than they say; slab by slab in order."""
        facts = [(r.common, r.group, r.own + more) for r, more in zip(runs, ahead, strict=True)]
        common, group, own = np.array(facts, dtype=np.int64).reshape(-1, 3).T.copy()
        spans, start = [], 0
        while start < len(runs):
            slab = _spot(runs[start]).slab
            stop = start + 1
            while stop < len(runs) and _spot(runs[stop]).slab is slab:
                stop += 1
            here = runs[start:stop]
            rows = np.array([_spot(run).row for run in here])
            shared = self._shared(here, common[start:stop], group[start:stop])
            spans.append((slab, slice(start, stop), rows, shared))
            start = stop
        return Places(common, group, own, spans)

    def step(self, ids: Ints, places: Places) -> Tensor:
        """Hidden states of one token for each run."""
        device = self.cache.shape.device
        sections = []
        for slab, here, rows, shared in places.spans:
            own = places.own[here]
            look = Beside.of([*shared, View(slab, rows, own + 1)], device)
            sections.append(Section(here, slab, self.tensor(rows), self.tensor(own), look))
        return self._pass(ids, places.positions, Feed(tuple(sections)))

    def read(self, readings: Sequence[Reading]) -> Iterator[Tensor | None]:
        """Append tokens to runs, a pass at a time; at last the hidden state of each last token."""
        if not readings:
            return
        last: dict[int, Tensor] = {}
        for batch in passes(readings, self._group):
            hidden = self._read(readings, batch)
            ends = np.cumsum([piece.stop - piece.start for piece in batch]) - 1
            for row, piece in zip(hidden[self.tensor(ends)], batch, strict=True):
                if piece.stop == len(readings[piece.reading].ids):
                    last[piece.reading] = row
            yield None
        yield torch.stack([last[i] for i in range(len(readings))])

    def _read(self, readings: Sequence[Reading], batch: Sequence[Piece]) -> Tensor:
        runs = [readings[piece.reading].run for piece in batch]
        places = self.places(runs, [piece.start for piece in batch])
        ((slab, _, rows, shared),) = places.spans
        lengths = [piece.stop - piece.start for piece in batch]
        row = np.repeat(np.arange(len(batch)), lengths)
        inside = np.concatenate([np.arange(length) for length in lengths])
        ids = np.concatenate([readings[p.reading].ids[p.start : p.stop] for p in batch])
        look = Gathered.of([*shared, View(slab, rows, places.own + 1)], row, inside, self._group)
        offsets = self.tensor(places.own[row] + inside)
        section = Section(slice(0, len(ids)), slab, self.tensor(rows[row]), offsets, look)
        return self._pass(ids, places.positions[row] + inside, Feed((section,)))

    def _shared(self, runs: Sequence[Run], common: Ints, group: Ints) -> list[View]:
        views = []
        start = self.cache.start
        if start is not None and common.any():
            views.append(View(start.spot.slab, np.full(len(runs), start.spot.row), common))
        slabs = list(dict.fromkeys(run.block.spot.slab for run in runs if run.block is not None))
        for slab in slabs:
            mine = [run.block is not None and run.block.spot.slab is slab for run in runs]
            blocks = [run.block.spot.row if run.block else 0 for run in runs]
            first = next(block for block, own in zip(blocks, mine, strict=True) if own)
            rows = np.where(mine, blocks, first)
            views.append(View(slab, rows, np.where(mine, group, 0)))
        return views

    def _pass(self, ids: Ints, positions: Ints, feed: Feed) -> Tensor:
        out = self._decoder(
            input_ids=self.tensor(ids)[None],
            position_ids=self.tensor(positions)[None],
            use_cache=False,
            feed=feed,
        )
        self.tokens += len(ids)
        hidden: Tensor = out.last_hidden_state[0]
        return hidden

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


def passes(readings: Sequence[Reading], group: int) -> Iterator[list[Piece]]:
    """Cut readings into passes: of one slab each, of like lengths, within bounds.

    Args:
        readings: What is to be computed.
        group: Query heads for each key-value head.
    """
    slabs = {slab: i for i, slab in enumerate(dict.fromkeys(_spot(r.run).slab for r in readings))}
    keys = [(slabs[_spot(r.run).slab], len(r.ids), _context(r)) for r in readings]
    batch: list[Piece] = []
    slab, least, width, context = 0, 0, 0, 0
    for i in sorted(range(len(readings)), key=keys.__getitem__):
        for piece in _pieces(i, readings[i], group):
            length = piece.stop - piece.start
            wide, far = max(width, length), max(context, keys[i][2])
            places = (len(batch) + 1) * wide
            joins = slab == keys[i][0] and not piece.start and wide <= 2 * least + UNEVEN
            if joins and places <= PASS_TOKENS and 4 * group * places * far <= MASK_BYTES:
                width, context, least = wide, far, min(least, length)
                batch.append(piece)
                continue
            if batch:
                yield batch
            batch = [piece]
            slab, least, width, context = keys[i][0], length, length, keys[i][2]
    if batch:
        yield batch


def _pieces(index: int, reading: Reading, group: int) -> Iterator[Piece]:
    length = len(reading.ids)
    size = max(16, min(PASS_TOKENS // 8, MASK_BYTES // (4 * group * _context(reading))))
    for start in range(0, length, size):
        yield Piece(index, start, min(length, start + size))


def _context(reading: Reading) -> int:
    """Tokens that its last one sees."""
    return len(reading.run.tokens) + len(reading.ids)


def _spot(run: Run) -> Spot:
    assert run.spot is not None, "a run is given a row before it is computed"
    return run.spot
