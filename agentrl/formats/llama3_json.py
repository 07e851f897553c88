"""Llama 3.x: a turn that is one JSON object of `name` and `parameters`.

In    the text of one assistant turn
Out   AssistantTurn
Not   a search for JSON: without `<|python_tag|>` only a turn that begins with a call is one,
      so that JSON in an answer, or after words, stays an answer
"""

from __future__ import annotations

import re

from agentrl.formats.bare import body
from agentrl.formats.call import Shape, call_of, malformed, name_of
from agentrl.formats.format import Tools
from agentrl.formats.turn import marks, read_turn
from agentrl.message import AssistantTurn, FinishReason, ToolCall

OPEN = "<|python_tag|>"
EXAMPLE = '{"name": "NAME", "parameters": {"KEY": "VALUE"}} and nothing else'

_MARKS = marks(OPEN)
_SHAPE = Shape("parameters", "arguments", example=EXAMPLE)
_BEGINS = re.compile(
    r"""\s*+\[?\s*+\{\s*+["'](?:name["']\s*+:|type["']\s*+:\s*+["']function["'])"""
)
"""How a turn begins that means to be a call, well written or not."""
_FOLLOWS = re.compile(r"""(?:;\s*+)?\{\s*+["']name["']|<\|python_tag\|>|</?think>""")
_BETWEEN = re.compile(r"\s*+(?:;\s*+)?")


def parse(text: str, finish_reason: FinishReason = "stop", tools: Tools = ()) -> AssistantTurn:
    """Split a turn into words, reasoning and calls."""

    def read(text: str, start: int) -> tuple[list[ToolCall], int]:
        return _calls(text, start, finish_reason)

    turn = read_turn(text, finish_reason, _MARKS, read)
    if turn.calls or not _BEGINS.match(turn.text):
        return turn
    calls, after = _calls(turn.text, 0, finish_reason)
    return AssistantTurn(turn.text[after:].strip(), tuple(calls), turn.reasoning, finish_reason)


def _calls(text: str, start: int, finish_reason: FinishReason) -> tuple[list[ToolCall], int]:
    calls: list[ToolCall] = []
    while True:
        found = body(text, start, _MARKS.pattern, finish_reason, _FOLLOWS)
        if found.why:
            calls.append(malformed(name_of(found.value), found.why, found.source, EXAMPLE))
        else:
            calls.append(call_of(found.value, found.source, _SHAPE))
        between = _BETWEEN.match(text, found.after)
        start = between.end() if between else found.after
        if not text.startswith("{", start):
            return calls, start
