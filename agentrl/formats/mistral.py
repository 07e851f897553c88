"""Mistral: calls after `[TOOL_CALLS]`, as one JSON list or each as a name and its arguments.

In    the text of one assistant turn
Out   AssistantTurn; ids of calls where the policy gave some
Not   a mixture: each of the two ways is a format of its own, as each template knows only one
"""

from __future__ import annotations

import re
from typing import Any

from agentrl.formats.bare import Body, body
from agentrl.formats.call import Shape, call_of, call_with, cut_or, malformed
from agentrl.formats.format import Tools
from agentrl.formats.strict import decode
from agentrl.formats.turn import marks, read_turn
from agentrl.message import AssistantTurn, FinishReason, ToolCall

OPEN, ARGS, CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
LIST_EXAMPLE = f'{OPEN}[{{"name": "NAME", "arguments": {{"KEY": "VALUE"}}}}]'
ARGS_EXAMPLE = f'{OPEN}NAME{ARGS}{{"KEY": "VALUE"}}'

_MARKS = marks(OPEN, "[THINK]", "[/THINK]")
_LIST = Shape(extra=("id",), example=LIST_EXAMPLE)
_HEAD = re.compile(r"([^\[\]{}\n]*+)(?:\[CALL_ID\]([^\[\]{}\n]*+))?\[ARGS\]")
_ID = re.compile(r"[A-Za-z0-9]{9}")
_BAD_ID = "the id of a call has nine letters or digits, or is left out"
_TURN = re.compile(r"\[/TOOL_RESULTS\]|\[/INST\]")


def parse_list(text: str, finish_reason: FinishReason = "stop", tools: Tools = ()) -> AssistantTurn:
    """A turn whose calls are one JSON list (tokenizers v2 to v7)."""

    def read(text: str, start: int) -> tuple[list[ToolCall], int]:
        found = body(text, start, _MARKS.pattern, finish_reason)
        return _listed(found), found.after

    return read_turn(text, finish_reason, _MARKS, read)


def parse_args(text: str, finish_reason: FinishReason = "stop", tools: Tools = ()) -> AssistantTurn:
    """A turn whose calls are `NAME[ARGS]{...}` each (tokenizers v11 and later)."""

    def read(text: str, start: int) -> tuple[list[ToolCall], int]:
        call, after = _named(text, start, finish_reason)
        return [call], after

    return read_turn(text, finish_reason, _MARKS, read)


def list_ids(text: str) -> list[str]:
    """Ids in the list of calls of the last turn of a conversation's text."""
    turn = _last_turn(text)
    start = turn.find(OPEN)
    value = decode(turn, start + len(OPEN)).value if start >= 0 else None
    if not isinstance(value, list):
        return []
    return [_id(entry.get("id")) if isinstance(entry, dict) else "" for entry in value]


def args_ids(text: str) -> list[str]:
    """Ids of the calls of the last turn of a conversation's text."""
    turn = _last_turn(text)
    heads = (_HEAD.match(turn, mark.end()) for mark in re.finditer(re.escape(OPEN), turn))
    return [_id(head[2].strip()) if head and head[2] else "" for head in heads]


def _listed(found: Body) -> list[ToolCall]:
    if found.why:
        return [malformed("", found.why, found.source, LIST_EXAMPLE)]
    if not isinstance(found.value, list) or not found.value:
        return [malformed("", "expected a JSON list of calls", found.source, LIST_EXAMPLE)]
    return [_entry(value, found.source) for value in found.value]


def _entry(value: Any, source: str) -> ToolCall:
    call = call_of(value, source, _LIST)
    if call.problem is None and "id" in value and not _id(value["id"]):
        return malformed(call.name, _BAD_ID, source, LIST_EXAMPLE)
    return call


def _named(text: str, start: int, finish_reason: FinishReason) -> tuple[ToolCall, int]:
    head = _HEAD.match(text, start)
    if not head:
        mark = _MARKS.pattern.search(text, start)
        after = mark.start() if mark else len(text)
        why = cut_or(f"the name and {ARGS} are missing", mark is None, finish_reason)
        return malformed("", why, text[start:after], ARGS_EXAMPLE), after
    found = body(text, head.end(), _MARKS.pattern, finish_reason)
    name = head[1].strip()
    if found.why:
        return malformed(name, found.why, text[start : found.after], ARGS_EXAMPLE), found.after
    source = text[start : found.after]
    if head[2] is not None and not _id(head[2].strip()):
        return malformed(name, _BAD_ID, source, ARGS_EXAMPLE), found.after
    return call_with(name, found.value, source, ARGS_EXAMPLE), found.after


def _last_turn(text: str) -> str:
    start = 0
    for mark in _TURN.finditer(text):
        start = mark.end()
    return text[start:]


def _id(given: Any) -> str:
    """The id, where results can name it: templates raise for any other."""
    return given if isinstance(given, str) and _ID.fullmatch(given) else ""
