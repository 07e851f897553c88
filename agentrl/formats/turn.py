"""A turn's text, taken apart at its marks: words, reasoning, calls.

In    the text, what marks calls and reasoning, and how one call is read
Out   AssistantTurn
Not   a search for calls: only a mark begins one. Reasoning is never looked into, and a call
      that stands inside a closed piece of Markdown code is quoted, not made. Nothing else
      quotes: not quotation marks, comments, or the sign of a quoted line
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

_FENCE = re.compile(
    r"^[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?(`{3}`*+|~{3}~*+)([^`\n]*+)$", re.MULTILINE
)
"""A line that opens or closes code, in a list or a quotation too."""
_BARE = re.compile(r"^[ \t>]*+(`{3}`*+|~{3}~*+)[ \t\r]*+$", re.MULTILINE)
_LONGEST = 8
"""Characters of a fence that are counted."""


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
    if not marks.pattern.search(text):
        return AssistantTurn(text.strip(), (), "", finish_reason)
    parts = _Parts(text)
    while mark := marks.pattern.search(text, parts.at):
        if mark[0] == marks.think:
            parts.think(mark.start(), mark.end(), marks.thought)
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
    fence: str = ""
    """What opened the code that the visible words are in; empty outside of code."""
    words: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    def think(self, words_end: int, start: int, thought: str) -> None:
        self.words.append(self.text[self.at : words_end])
        self._pass_fences(words_end)
        end = self.text.find(thought, start)
        stop = len(self.text) if end < 0 else end
        self.thoughts.append(self.text[start:stop])
        self.at = stop if end < 0 else stop + len(thought)

    def hide(self, stop: int, after: int) -> None:
        self.words, self.calls, self.thoughts = [], [], []
        self.hidden, self.at, self.fence = stop, after, ""

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
        line = max(self.at, self.text.rfind("\n", self.at, start) + 1)
        self._pass_fences(start)
        return self._fence_end(after) or self._span_end(line, start, after)

    def _pass_fences(self, stop: int) -> None:
        """Open and close code where the words up to `stop` do."""
        for fence in _FENCE.finditer(self.text, self.at, stop):
            if not self.fence:
                self.fence = fence[1][:_LONGEST]
            elif fence[1].startswith(self.fence) and not fence[2].strip():
                self.fence = ""

    def _fence_end(self, after: int) -> int:
        """Where the code block ends that the words are in; 0 where none is open, or ever ends."""
        if not self.fence or after > self._last_fences.get(self.fence, -1):
            return 0
        fence, self.fence = self.fence, ""
        closes = (m.end() for m in _BARE.finditer(self.text, after) if m[1].startswith(fence))
        return next(closes, 0)

    def _span_end(self, line: int, start: int, after: int) -> int:
        """Where the span of code ends that is open on a call's line; 0 where none is."""
        if self.text.count("`", line, start) % 2 == 0:
            return 0
        close = self.text.find("`", after)
        return 0 if close < 0 or "\n" in self.text[after:close] else close + 1

    @cached_property
    def _last_fences(self) -> dict[str, int]:
        """For each opening of code, where it is closed for the last time."""
        return {
            close[1][:size]: close.start()
            for close in _BARE.finditer(self.text)
            for size in range(3, min(len(close[1]), _LONGEST) + 1)
        }
