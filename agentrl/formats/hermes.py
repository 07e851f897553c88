"""Hermes: tool calls written as JSON between `<tool_call>` tags (Qwen2.5, Qwen3, and others).

In    the text of one assistant turn, and how it ended
Out   AssistantTurn: visible words, reasoning, and every call, sound or with its problem
Not   a repair shop: a call that is not exactly an object of `name` and `arguments` is refused
      in words, never guessed
"""

from __future__ import annotations

import re

from agentrl.formats.call import MAX_PROBLEM, Shape, call_of, cut_or, malformed, name_of
from agentrl.formats.format import Tools
from agentrl.formats.strict import decode
from agentrl.formats.turn import marks, read_turn
from agentrl.message import AssistantTurn, FinishReason, ToolCall

__all__ = ["MAX_PROBLEM", "parse"]

OPEN, CLOSE = "<tool_call>", "</tool_call>"

_MARKS = marks(OPEN)
_ANY = re.compile(f"{OPEN}|{CLOSE}|<think>|</think>")
_END = re.compile(rf"\s*+(?:```)?\s*+{CLOSE}")
_SHAPE = Shape()


def parse(text: str, finish_reason: FinishReason = "stop", tools: Tools = ()) -> AssistantTurn:
    """Split a turn into words, reasoning and calls. Calls inside reasoning are reasoning."""

    def read(text: str, start: int) -> tuple[list[ToolCall], int]:
        call, after = _call(text, start, finish_reason)
        return [call], after

    return read_turn(text, finish_reason, _MARKS, read)


def _call(text: str, start: int, finish_reason: FinishReason) -> tuple[ToolCall, int]:
    """The call whose tag ends at `start`, and where the text goes on."""
    found = decode(text, start)
    if found.why:
        stop, after = _region(text, start)
        why = cut_or(found.why, stop == len(text), finish_reason)
        return malformed("", why, text[start:stop]), after
    closed = _END.match(text, found.end)
    if closed:
        return call_of(found.value, text[start : found.end], _SHAPE), closed.end()
    stop, after = _region(text, found.end)
    follows = text[found.end : stop].strip()
    unclosed = cut_or(f"the call is not closed with {CLOSE}", True, finish_reason)
    why = "something follows the JSON object" if follows else unclosed
    return malformed(name_of(found.value), why, text[start:stop]), after


def _region(text: str, start: int) -> tuple[int, int]:
    """Where a broken call ends: before the next tag, which is swallowed if it closes a call."""
    mark = _ANY.search(text, start)
    if mark is None:
        return len(text), len(text)
    return mark.start(), mark.end() if mark[0] == CLOSE else mark.start()
