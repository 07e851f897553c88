"""Decoding: a wave of requests → what was sampled for each.

In    requests of a wave in their fixed order, a causal model
Out   Draft per request; the cache holds all of its tokens but the last
Not   concurrency: one wave at a time, and no training meanwhile
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl.engines.attention import Ints
from agentrl.engines.cache import Run
from agentrl.engines.draw import draw, uniforms
from agentrl.engines.forward import Forward, Places
from agentrl.errors import EngineError
from agentrl.policy import Request

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Flags = NDArray[np.bool_]
GHOSTS = 32
"""Rows that ended leave the batch when they are one in this many."""


@dataclass(slots=True)
class Draft:
    """One request's completion as it grows."""

    request: Request
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    done: bool = False

    @property
    def stopped(self) -> bool:
        """Whether the last id is a stop token."""
        return self.ids[-1] in self.request.stop_token_ids

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

    def __init__(self, model: PreTrainedModel) -> None:
        """Look at the model's shape; nothing is computed yet."""
        self.forward = Forward(model)
        self.cache = self.forward.cache
        self.abandoned = False
        """Set from another thread: nobody waits for the wave, it ends at its next token."""

    @torch.no_grad()
    def run(self, requests: Sequence[Request]) -> list[Draft]:
        """Sample one turn for every request."""
        drafts = [Draft(request) for request in requests]
        try:
            with self.forward.borrowed():
                self._sample(drafts, self._read_prompts(requests))
        except BaseException:
            self.cache.forget()
            raise
        return drafts

    def _read_prompts(self, requests: Sequence[Request]) -> Tensor:
        """Compute what the cache lacks of the prompts; the hidden state at the end of each."""
        shared = self.cache.admit(requests)
        runs = [self.cache.runs[r.session] for r in requests]
        if shared.common:
            self.forward.read(self.cache.common, [Run(row=0)], [shared.common])
        ends, found = [], 0
        if shared.groups:
            start = Run(shared.common, common=len(shared.common))
            blocks = [replace(start, row=row) for row in range(len(shared.groups))]
            ends.append(self.forward.read(self.cache.groups, blocks, shared.groups))
            found = len(blocks)
        where = [run.block for run in runs]
        rest = [i for i, run in enumerate(runs) if len(run.tokens) < len(requests[i].prompt_ids)]
        if rest:
            news = [requests[i].prompt_ids[len(runs[i].tokens) :] for i in rest]
            ends.append(self.forward.read(self.cache.own, [runs[i] for i in rest], news))
        for place, i in enumerate(rest, found):
            where[i] = place
            runs[i].tokens = requests[i].prompt_ids
        return torch.cat(ends)[self.forward.tensor(np.array(where))]

    def _sample(self, drafts: Sequence[Draft], hidden: Tensor) -> None:
        """Draw, feed, draw: until every draft has ended."""
        requests = [draft.request for draft in drafts]
        runs = [self.cache.runs[r.session] for r in requests]
        uniform = uniforms(requests).to(hidden.device)
        temperatures = [r.sampling.temperature for r in requests]
        temperature = torch.tensor(temperatures, device=hidden.device)
        batch = _Batch.of(runs)
        hidden = hidden[self.forward.tensor(batch.who)]
        for step in range(uniform.shape[1]):
            if self.abandoned:
                raise EngineError("the cohort ended while its wave was computed.")
            who = self.forward.tensor(batch.active)
            ids, logprobs = draw(self.forward.logits(hidden), temperature[who], uniform[who, step])
            _record(drafts, batch, ids.tolist(), logprobs.tolist())
            live = np.array([not drafts[i].done for i in batch.active])
            if not live.any():
                break
            hidden = self._feed(drafts, batch, live)
        for row, i in enumerate(batch.who.tolist()):
            runs[i].row = row
            runs[i].tokens = requests[i].prompt_ids + tuple(drafts[i].ids[:-1])

    def _feed(self, drafts: Sequence[Draft], batch: _Batch, live: Flags) -> Tensor:
        """Compute the drawn tokens; rows that ended leave first, where there are enough."""
        ended = batch.count - int(live.sum())
        if ended >= max(1, batch.count // GHOSTS):
            tokens = int(batch.places.own.max())
            self.cache.own.move(*batch.drop(live), tokens)
        here = batch.places.at(slice(batch.count))
        self.cache.own.reserve(len(batch.who), int(here.own.max()) + 1)
        ids = np.array([drafts[i].ids[-1] for i in batch.active])
        hidden = self.forward.step(self.cache.own, ids, here)
        here.own[:] += 1
        return hidden


@dataclass(slots=True)
class _Batch:
    """Rows of the own runs: the first `count` are computed, the others have ended."""

    places: Places
    who: Ints
    """Index of each row's request."""
    count: int

    @classmethod
    def of(cls, runs: Sequence[Run]) -> _Batch:
        who = np.argsort([run.row for run in runs])
        return cls(Places.after([runs[i] for i in who]), who, len(runs))

    @property
    def active(self) -> Ints:
        return self.who[: self.count]

    def drop(self, live: Flags) -> tuple[list[int], list[int]]:
        """Bring live rows to the front; which rows took whose places."""
        self.count = int(live.sum())
        holes = np.flatnonzero(~live[: self.count])
        late = self.count + np.flatnonzero(live[self.count :])
        source, target = np.concatenate([late, holes]), np.concatenate([holes, late])
        p = self.places
        for column in (p.common, p.group, p.block, p.own, self.who):
            column[target] = column[source]
        return source.tolist(), target.tolist()


def _record(
    drafts: Sequence[Draft], batch: _Batch, ids: Sequence[int], logprobs: Sequence[float]
) -> None:
    for i, token, logprob in zip(batch.active, ids, logprobs, strict=True):
        if not drafts[i].done:
            drafts[i].add(token, logprob)
