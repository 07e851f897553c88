"""What an engine is asked and what it answers; the seam between play and models.

In    token ids, a sampling specification, a seed
Out   Completion: the sampled ids with their log-probs, never text
Not   chat: messages become tokens in render.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agentrl.message import FinishReason

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Training needs the whole distribution: no top-p, no top-k."""

    temperature: float = 1.0
    """0 is greedy; log-probs are those of the distribution at this temperature (1 for greedy)."""


@dataclass(frozen=True, slots=True)
class Request:
    """One turn to be sampled."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    """At least 1; the caller has checked that prompt + max_tokens fits the context."""
    stop_token_ids: tuple[int, ...]
    sampling: Sampling
    seed: int
    """Seed of this turn's own draws."""
    session: tuple[int, int]
    """(task position, member): names the episode, so that an engine may keep its cache."""
    turn: int = 0

    def problem(self, max_context: int, vocabulary: int) -> str | None:
        """Why no model with this context and vocabulary can answer; None where one can."""
        prompt, total = len(self.prompt_ids), len(self.prompt_ids) + self.max_tokens
        if not prompt or self.max_tokens < 1:
            return f"{prompt} prompt tokens and {self.max_tokens} to sample; both need 1"
        if total > max_context:
            return f"{prompt} + {self.max_tokens} tokens; the context has {max_context}"
        if not 0 <= min(self.prompt_ids) <= max(self.prompt_ids) < vocabulary:
            return f"a prompt id outside the vocabulary of {vocabulary}"
        return None


@dataclass(frozen=True, slots=True)
class Completion:
    """The tokens of one turn. The sampled end token is included."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    finish_reason: FinishReason
    """`stop` where the last id is one of the stop tokens, else `length`."""
    version: int
    """Of the weights that the first token came from."""
    changes: tuple[tuple[int, int], ...] = ()
    """(index, version), in order: from that token on they were other weights."""

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """(version, start, end) of each stretch of tokens from the same weights."""
        starts = ((0, self.version), *self.changes)
        ends = (*(start for start, _ in self.changes), len(self.ids))
        for (start, version), end in zip(starts, ends, strict=True):
            yield version, start, end


class WeightSource(Protocol):
    """Where an engine takes new weights from."""

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Names as in a Hugging Face checkpoint, one tensor at a time."""
        ...

    def fingerprint(self, ids: Sequence[int]) -> list[float]:
        """Log-prob of each id of `ids[1:]` given those before it, by the learner itself."""
        ...


class Engine(Protocol):
    """Runs a policy's tokens. One object may be many replicas."""

    name: str
    max_context: int
    """Tokens of prompt and completion together."""
    wave: bool
    """True: it answers when every live episode has asked (deterministic batches)."""
    max_live: int
    """How many episodes are played at once."""
    inflight: bool
    """True: `load` may come between two tokens of a turn, and the completion says where."""

    def episodes(self, sessions: Sequence[tuple[int, int]]) -> AbstractContextManager[None]:
        """Declare the episodes that will be played together."""
        ...

    def finish(self, session: tuple[int, int]) -> None:
        """An episode will ask no more."""
        ...

    async def generate(self, request: Request) -> Completion:
        """Sample one turn."""
        ...

    async def load(self, source: WeightSource, version: int) -> None:
        """Take new weights and prove it; raises WeightSyncError."""
        ...

    async def sleep(self) -> None:
        """Give memory back while the learner needs it; nothing is asked meanwhile."""
        ...

    async def wake(self) -> None:
        """Take the memory again; weights come with the next `load`."""
        ...

    def counters(self) -> Mapping[str, float]:
        """What was counted since it started, by the last part of a metric's name."""
        ...

    async def close(self) -> None:
        """Free what it holds."""
        ...
