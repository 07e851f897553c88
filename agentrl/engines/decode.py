"""Decoding: requests → what was sampled for each, token by token for all that are answered.

In    requests that join, in an order that the caller chose; a causal model
Out   Draft per request; the cache holds all of its tokens but the last
Not   concurrency: one thread, and no training while it computes
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl.engines.bank import Slab, Spot
from agentrl.engines.cache import Reading, Run, Shared
from agentrl.engines.draw import draw, uniforms
from agentrl.engines.forward import Forward, Places
from agentrl.errors import EngineError
from agentrl.policy import Request

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GHOSTS = 8
"""Rows are brought together when one in so many, up to the last that is computed, is idle."""


@dataclass(slots=True, eq=False)
class Draft:
    """One request's completion as it grows."""

    request: Request
    run: Run
    uniform: NDArray[np.float64]
    """A number in [0, 1) for each token that it may draw."""
    version: int = 0
    """Of the weights that its first token came from."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    changes: list[tuple[int, int]] = field(default_factory=list)
    done: bool = False

    @property
    def stopped(self) -> bool:
        """Whether the last id is a stop token."""
        return self.ids[-1] in self.request.stop_token_ids

    def change(self, version: int) -> None:
        """What comes next is of other weights."""
        if self.changes and self.changes[-1][0] == len(self.ids):
            self.changes.pop()
        self.changes.append((len(self.ids), version))

    def add(self, token: int, logprob: float) -> None:
        """Append a drawn token; a stop token ends the draft, and so does its length."""
        if not math.isfinite(logprob):
            raise EngineError(
                f"episode {self.request.session}: the model's logits are not finite. Its weights "
                "are broken, often by a learning rate that is too high. Resume with a lower one."
            )
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.done = self.stopped or len(self.ids) >= self.request.max_tokens


class Decoder:
    """Samples from a model whose weights belong to someone else."""

    def __init__(self, model: PreTrainedModel, limit: int) -> None:
        """Look at the model's shape; nothing is computed yet.

        Args:
            model: What is sampled from.
            limit: Bytes for keys and values.
        """
        self.forward = Forward(model, limit)
        self.cache = self.forward.cache
        self.live: list[Draft] = []
        """Those that are being answered, in the order of their rows."""
        self.version = 0
        self.abandoned = False
        """Set from another thread: nobody waits for a wave, it ends at its next token."""
        self._places: Places | None = None

    def forget(self) -> None:
        """Drop what is held, and all drafts."""
        self.live, self._places = [], None
        self.cache.forget()

    def run(self, requests: Sequence[Request]) -> list[Draft]:
        """Sample one turn for every request: a wave, in parts where memory asks for it."""
        drafts: list[Draft] = []
        self.cache.retain({request.session for request in requests})
        while len(drafts) < len(requests):
            rest = requests[len(drafts) :]
            drafts += self.join(rest[: self.cache.fitting(rest, ())])
            while self.live:
                self.step()
        return drafts

    def join(self, requests: Sequence[Request]) -> list[Draft]:
        """Read prompts and draw each one's first token."""
        if not requests:
            return []
        with self._borrowed():
            shared = self.cache.admit(requests)
            runs = [self.cache.runs[r.session] for r in requests]
            drafts = [
                Draft(r, run, uniform, self.version)
                for r, run, uniform in zip(requests, runs, uniforms(requests), strict=True)
            ]
            self._draw(drafts, self._read_prompts(requests, runs, shared))
            self.live += [draft for draft in drafts if not draft.done]
            self._places = None
        return drafts

    def step(self) -> list[Draft]:
        """Compute and draw one token for all that are being answered; those that ended."""
        with self._borrowed():
            places = self._places or self._arrange()
            ids = np.array([draft.ids[-1] for draft in self.live])
            hidden = self.forward.step(ids, places)
            places.own += 1
            self._draw(self.live, hidden)
        ended = [draft for draft in self.live if draft.done]
        if ended:
            self.live = [draft for draft in self.live if not draft.done]
            self._places = None
        return ended

    def drop(self, draft: Draft) -> None:
        """Nobody waits for this one any more."""
        if draft in self.live:
            self.live.remove(draft)
            self._places = None
            self._close(draft)

    def renew(self, version: int) -> None:
        """The weights are others from here on; drafts go on with the keys that they have."""
        self.version = version
        self.cache.outdate({draft.request.session for draft in self.live})
        for draft in self.live:
            draft.change(version)

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        try:
            with torch.no_grad(), self.forward.borrowed():
                yield
        except BaseException:
            self.forget()
            raise

    def _read_prompts(
        self, requests: Sequence[Request], runs: Sequence[Run], shared: Shared
    ) -> Tensor:
        """Compute what the cache lacks of the prompts; the hidden state at the end of each."""
        self._read(shared.common)
        for block, end in zip(shared.new, self._read(shared.blocks), strict=True):
            block.end = end
        rest = [
            Reading(run, request.prompt_ids[len(run.tokens) :])
            for run, request in zip(runs, requests, strict=True)
            if len(run.tokens) < len(request.prompt_ids)
        ]
        ends = iter(self._read(rest))
        found = []
        for run, request in zip(runs, requests, strict=True):
            alone = len(run.tokens) < len(request.prompt_ids)
            found.append(next(ends) if alone else _end(run))
            run.tokens = request.prompt_ids
        return torch.stack(found)

    def _read(self, readings: Sequence[Reading]) -> Sequence[Tensor]:
        """Hidden state at the end of each."""
        ends: Sequence[Tensor] = ()
        for found in self.forward.read(readings):
            self._go_on()
            ends = ends if found is None else found.unbind()
        return ends

    def _go_on(self) -> None:
        if self.abandoned:
            raise EngineError("the cohort ended while its wave was computed.")

    def _draw(self, drafts: Sequence[Draft], hidden: Tensor) -> None:
        self._go_on()
        chances = np.array([draft.uniform[len(draft.ids)] for draft in drafts])
        heat = np.array([draft.request.sampling.temperature for draft in drafts], np.float32)
        temperature = torch.from_numpy(heat).to(hidden.device)
        logits = self.forward.logits(hidden)
        ids, logprobs = draw(logits, temperature, torch.from_numpy(chances).to(hidden.device))
        for draft, token, logprob in zip(drafts, ids.tolist(), logprobs.tolist(), strict=True):
            draft.add(token, logprob)
            if draft.done:
                self._close(draft)

    def _close(self, draft: Draft) -> None:
        draft.run.tokens = draft.request.prompt_ids + tuple(draft.ids[:-1])
        if draft.run.outdated:
            self.cache.drop(draft.request.session)

    def _arrange(self) -> Places:
        """Order by slab and row, with computed rows near each other."""
        slabs: dict[Slab, list[Draft]] = defaultdict(list)
        for draft in self.live:
            assert draft.run.spot is not None
            slabs[draft.run.spot.slab].append(draft)
        order = [slab for slab in self.cache.own.slabs if slab in slabs]
        for slab in order:
            self._bring_together(slab, slabs[slab])
            slabs[slab].sort(key=_row)
        self.live = [draft for slab in order for draft in slabs[slab]]
        runs = [draft.run for draft in self.live]
        self._places = self.forward.places(runs, [len(d.ids) - 1 for d in self.live])
        return self._places

    def _bring_together(self, slab: Slab, drafts: Sequence[Draft]) -> None:
        count, high = len(drafts), max(map(_row, drafts)) + 1
        if high - count <= high // GHOSTS:
            return
        late = {_row(draft): draft.run for draft in drafts if _row(draft) >= count}
        taken = {_row(draft) for draft in drafts}
        holes = [row for row in range(count) if row not in taken]
        runs = (run for run in self.cache.runs.values() if run.spot and run.spot.slab is slab)
        others = {run.spot.row: run for run in runs if run.spot}
        pairs = list(zip(sorted(late), holes, strict=True))
        held = max(run.own for run in others.values()) + max(len(draft.ids) for draft in drafts)
        slab.swap([row for row, _ in pairs], holes, min(held, slab.tokens))
        for row, hole in pairs:
            late[row].spot = Spot(slab, hole)
            idle = others.get(hole)
            if idle is None:
                slab.free[slab.free.index(hole)] = row
            else:
                idle.spot = Spot(slab, row)
        slab.free.sort()


def _end(run: Run) -> Tensor:
    assert run.block is not None
    assert run.block.end is not None, "a block is read before anyone draws from its end"
    return run.block.end


def _row(draft: Draft) -> int:
    assert draft.run.spot is not None
    return draft.run.spot.row
