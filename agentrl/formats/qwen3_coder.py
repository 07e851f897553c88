"""Qwen3-Coder, Qwen3.5: calls as tags, each parameter's value as text between them.

In    the text of one assistant turn, and the schemas of the tools
Out   AssistantTurn; values have the types that the schemas name (schema.py)
Not   XML: nothing is escaped, so a value ends where its closing tag is followed by the next
      parameter or the end of the call; a call with closing tags behind it is refused. A value
      that spells a closing tag and a whole further parameter is, to anybody, two parameters
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentrl.formats.call import cut_or, malformed
from agentrl.formats.format import Tools
from agentrl.formats.schema import parameters_of, value_of
from agentrl.formats.turn import marks, read_turn
from agentrl.message import AssistantTurn, FinishReason, ToolCall

EXAMPLE = (
    "<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>"
)

_MARKS = marks("<tool_call>")
_ANY = re.compile(r"</?tool_call>|</?think>")
_FUNCTION = re.compile(r"\s*+<function=([^>\n]*+)>\s*+")
_PARAMETER = re.compile(r"<parameter=([^>\n]*+)>\n?")
_INNER = re.compile(r"^<parameter=[^>\n]*+>|<tool_call>\s*+<function=", re.MULTILINE)
"""In a value, the sign that its closing tag was forgotten."""
_VALUE_END = re.compile(
    r"</parameter>(?=\s*+(?:<parameter=|</function>))|</function>(?=\s*+</tool_call>)"
)
_PARAMETER_END = re.compile(r"</parameter>\s*+")
_END = re.compile(r"</function>\s*+</tool_call>")
_NEXT = re.compile(r"</(?:parameter|function|tool_call)>|<tool_call>|</?think>")
_STRAY = "a closing tag stands behind the call, which may have ended too early"


def parse(text: str, finish_reason: FinishReason = "stop", tools: Tools = ()) -> AssistantTurn:
    """Split a turn into words, reasoning and calls. Calls inside reasoning are reasoning."""
    return read_turn(text, finish_reason, _MARKS, _Reader(text, finish_reason, tools).call)


@dataclass
class _Reader:
    """Reads the calls of one text; where values can end is looked up once."""

    text: str
    finish_reason: FinishReason
    tools: Tools
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def _ends(self) -> list[int]:
        return [found.start() for found in _VALUE_END.finditer(self.text)]

    def call(self, text: str, start: int) -> tuple[list[ToolCall], int]:
        function = _FUNCTION.match(text, start)
        if not function:
            return self._refuse("", "<function=NAME> is missing", start, start)
        name, at, given = function[1], function.end(), dict[str, str]()
        if not name:
            return self._refuse("", "the name of the tool is missing", start, at)
        while parameter := _PARAMETER.match(text, at):
            key, begin = parameter[1], parameter.end()
            stop = self._value_end(begin)
            why = self._objection(key, given, begin, stop)
            if why:
                return self._refuse(name, why, start, begin)
            given[key] = text[begin:stop].removesuffix("\n")
            after = _PARAMETER_END.match(text, stop)
            at = after.end() if after else stop
        end = _END.match(text, at)
        if not end:
            return self._refuse(name, "</function> and </tool_call> do not follow", start, at)
        behind = _NEXT.search(text, end.end())
        if behind and behind[0] in ("</parameter>", "</function>", "</tool_call>"):
            return self._refuse(name, _STRAY, start, behind.start())
        return [ToolCall(name, self._typed(name, given))], end.end()

    def _value_end(self, start: int) -> int:
        """Where the value ends that begins at `start`; -1 where nothing ends it."""
        place = bisect_left(self._ends, start)
        return self._ends[place] if place < len(self._ends) else -1

    def _objection(self, key: str, given: dict[str, str], begin: int, stop: int) -> str:
        if not key:
            return "the name of a parameter is missing"
        if key in given:
            return f"the parameter {key[:40]} stands there twice"
        inside = stop >= 0 and self.text.startswith("</parameter>", stop)
        if not inside or _INNER.search(self.text, begin, stop):
            return f"the parameter {key[:40]} is not closed with </parameter>"
        return ""

    def _typed(self, name: str, given: dict[str, str]) -> dict[str, Any]:
        if name not in self.parameters:
            self.parameters[name] = parameters_of(name, self.tools)
        schema = self.parameters[name]
        return {key: value_of(text, key, schema) for key, text in given.items()}

    def _refuse(self, name: str, why: str, start: int, at: int) -> tuple[list[ToolCall], int]:
        mark = _ANY.search(self.text, at)
        stop = mark.start() if mark else len(self.text)
        after = mark.end() if mark and mark[0] == "</tool_call>" else stop
        why = cut_or(why, mark is None, self.finish_reason)
        return [malformed(name, why, self.text[start:stop], EXAMPLE)], after
