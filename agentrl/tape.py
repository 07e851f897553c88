"""Tape: what an episode has recorded so far, token by token.

In    prompts, sampled turns, what the environment said, in that order
Out   the ids so far; as a sequence, its branches
Not   a copy for whoever looks: branches are made when they are read, so that a turn costs the
      same however many were before it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from agentrl.policy import Completion
from agentrl.trajectory import Branch, Span


class Tape(Sequence[Branch]):
    """Grows only at its end."""

    __slots__ = ("_past", "_spans", "ids", "sampled", "searched", "version")

    def __init__(self) -> None:
        """Nothing was recorded yet."""
        self._past: list[Branch] = []
        self._spans: list[Span] = []
        self.ids: list[int] = []
        """Tokens of the branch that grows: the next prompt."""
        self.searched = 0
        """How many of them are known to hold no reasoning (render.Suffix)."""
        self.sampled = 0
        self.version = 0
        """Of the weights that the first token came from."""

    def begin(self, ids: Sequence[int]) -> None:
        """Start a branch with a prompt; a branch before it stays as it is."""
        if self._spans:
            self._past.append(Branch(tuple(self._spans)))
        self._spans, self.ids, self.searched = [], [], 0
        self.add(Span("prompt", tuple(ids)))

    def add(self, *spans: Span) -> None:
        """Go on with what has tokens."""
        for span in spans:
            if span.ids:
                self._spans.append(span)
                self.ids.extend(span.ids)

    def say(self, completion: Completion) -> None:
        """Go on with a sampled turn, by the weights that it came from."""
        if not self.sampled:
            self.version = completion.version
        self.sampled += len(completion.ids)
        ids, logprobs = completion.ids, completion.logprobs
        for version, start, end in completion.pieces():
            known = None if logprobs is None else logprobs[start:end]
            self.add(Span("sampled", ids[start:end], known, version))

    def __len__(self) -> int:
        return len(self._past) + bool(self._spans)

    @overload
    def __getitem__(self, index: int) -> Branch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Branch]: ...
    def __getitem__(self, index: int | slice) -> Branch | Sequence[Branch]:
        growing = [Branch(tuple(self._spans))] if self._spans else []
        return (*self._past, *growing)[index]
