"""DeepSeek: calls between the family's own marks.

In    the text of one assistant turn
Out   AssistantTurn
Not   a mixture: V3 and R1 write `function`, the name and a fenced block, V3.1 the name and
      JSON; each is a format of its own
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agentrl.formats.call import call_with, cut_or, malformed
from agentrl.formats.format import Tools
from agentrl.formats.strict import decode
from agentrl.formats.turn import marks, read_turn
from agentrl.message import AssistantTurn, FinishReason, ToolCall


def _mark(words: str) -> str:
    return f"<\uff5c{words.replace(' ', chr(0x2581))}\uff5c>"


CALLS, CALLS_END = _mark("tool calls begin"), _mark("tool calls end")
OPEN, SEP, CLOSE = _mark("tool call begin"), _mark("tool sep"), _mark("tool call end")
V3_EXAMPLE = f'{OPEN}function{SEP}NAME\n```json\n{{"KEY": "VALUE"}}\n```{CLOSE}'
V31_EXAMPLE = f'{OPEN}NAME{SEP}{{"KEY": "VALUE"}}{CLOSE}'

_MARKS = marks(OPEN)
_ANY = re.compile(f"{OPEN}|{CLOSE}|{CALLS_END}|</?think>")
_V3 = re.compile(rf"function{SEP}([^\n<]*+)\n(?=```json\n)")
_V31 = re.compile(rf"([^\n<]*+){SEP}")
_V3_END = re.compile(rf"\s*+```\s*+{CLOSE}")
_V31_END = re.compile(rf"\s*+(?:```)?\s*+{CLOSE}")


def parse_v3(text: str, finish_reason: FinishReason = "stop", tools: Tools = ()) -> AssistantTurn:
    """A turn of DeepSeek V3 or R1."""
    return _parse(text, finish_reason, _reader(_V3, _V3_END, V3_EXAMPLE, finish_reason))


def parse_v31(text: str, finish_reason: FinishReason = "stop", tools: Tools = ()) -> AssistantTurn:
    """A turn of DeepSeek V3.1."""
    return _parse(text, finish_reason, _reader(_V31, _V31_END, V31_EXAMPLE, finish_reason))


def _parse(
    text: str,
    finish_reason: FinishReason,
    read: Callable[[str, int], tuple[list[ToolCall], int]],
) -> AssistantTurn:
    turn = read_turn(text, finish_reason, _MARKS, read)
    words = turn.text.replace(CALLS, "").replace(CALLS_END, "").strip()
    return AssistantTurn(words, turn.calls, turn.reasoning, finish_reason)


def _reader(
    head: re.Pattern[str], end: re.Pattern[str], example: str, finish_reason: FinishReason
) -> Callable[[str, int], tuple[list[ToolCall], int]]:
    def read(text: str, start: int) -> tuple[list[ToolCall], int]:
        begin = head.match(text, start)
        if not begin:
            return refuse(text, start, start, "", "the name is not where it belongs")
        name = begin[1].strip()
        found = decode(text, begin.end())
        if found.why:
            return refuse(text, start, start, name, found.why)
        closed = end.match(text, found.end)
        if not closed:
            return refuse(text, start, found.end, name, f"{CLOSE} does not follow the JSON")
        call = call_with(name, found.value, text[start : found.end], example)
        return [call], closed.end()

    def refuse(text: str, start: int, at: int, name: str, why: str) -> tuple[list[ToolCall], int]:
        mark = _ANY.search(text, at)
        stop = mark.start() if mark else len(text)
        after = mark.end() if mark and mark[0] == CLOSE else stop
        why = cut_or(why, mark is None, finish_reason)
        return [malformed(name, why, text[start:stop], example)], after

    return read
