"""A turn's text, taken apart at its marks: words, reasoning, calls.

In    the text, what marks calls and reasoning, and how one call is read
Out   AssistantTurn
Not   a search for calls: only a mark begins one. Reasoning is never looked into, and a call
      that stands inside a closed piece of Markdown code is quoted, not made
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from agentrl.message import AssistantTurn, FinishReason, ToolCall

ReadCall: TypeAlias = Callable[[str, int], tuple[list[ToolCall], int]]
"""The text and where a call's mark ends → the calls, and where the text goes on."""

_FENCE = re.compile(r"^[ \t]*+```([^`\n]*+)$", re.MULTILINE)
_BARE = re.compile(r"^[ \t]*+```[ \t]*+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Marks:
    """What a format writes around calls and reasoning."""

    pattern: re.Pattern[str]
    """Whatever begins a call, and both marks of reasoning."""
    think: str
    thought: str


def marks(call: str, think: str = "<think>", thought: str = "</think>") -> Marks:
    """Marks of a format whose calls begin with one string."""
    pattern = re.compile("|".join(re.escape(mark) for mark in (call, think, thought)))
    return Marks(pattern, think, thought)


def read_turn(
    text: str, finish_reason: FinishReason, marks: Marks, read: ReadCall
) -> AssistantTurn:
    """Split a turn into words, reasoning and calls; in time linear in the text."""
    parts = _Parts(text)
    while mark := marks.pattern.search(text, parts.at):
        if mark[0] == marks.think:
            parts.words.append(text[parts.at : mark.start()])
            parts.think(mark.end(), marks.thought)
        elif mark[0] == marks.thought:
            # Some templates open the reasoning in the prompt, so that only its end is sampled.
            parts.hide(mark.start(), mark.end())
        else:
            calls, after = read(text, mark.end())
            parts.call(mark.start(), calls, after)
    parts.words.append(text[parts.at :])
    return parts.turn(finish_reason)


@dataclass
class _Parts:
    """What has been found so far."""

    text: str
    at: int = 0
    hidden: int = 0
    """Everything before this is reasoning."""
    words: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    def think(self, start: int, thought: str) -> None:
        end = self.text.find(thought, start)
        stop = len(self.text) if end < 0 else end
        self.thoughts.append(self.text[start:stop])
        self.at = stop if end < 0 else stop + len(thought)

    def hide(self, stop: int, after: int) -> None:
        self.words, self.calls, self.thoughts = [], [], []
        self.hidden, self.at = stop, after

    def call(self, start: int, calls: list[ToolCall], after: int) -> None:
        end = self._quoted(start, after)
        self.words.append(self.text[self.at : end or start])
        if not end:
            self.calls += calls
        self.at = end or after

    def turn(self, finish_reason: FinishReason) -> AssistantTurn:
        thoughts = [self.text[: self.hidden], *self.thoughts]
        reasoning = "\n".join(t.strip() for t in thoughts if t.strip())
        text = "".join(self.words).strip()
        return AssistantTurn(text, tuple(self.calls), reasoning, finish_reason)

    def _quoted(self, start: int, after: int) -> int:
        """Where the quotation ends that a call stands in; 0 where it stands in none."""
        if self.text[start - 1 : start] == self.text[after : after + 1] == "`":
            return after + 1
        fenced = False
        for fence in _FENCE.finditer(self.text, self.at, start):
            fenced = bool(fence[1].strip()) or not fenced
        if not fenced or after > self._last_fence:
            return 0
        close = _BARE.search(self.text, after)
        return close.end() if close else 0

    @cached_property
    def _last_fence(self) -> int:
        return max((fence.start() for fence in _BARE.finditer(self.text)), default=-1)
