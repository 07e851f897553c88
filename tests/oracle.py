"""Whether a text holds the calls that a parser says it does, found without that parser.

In    a format's name, a text, sound calls in the order of the parser
Out   `holds`: each call is written in a piece of the text of its own, in that order
Not   a parser: it finds what it is told to look for, and does not say what else is there
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentrl.message import ToolCall
from tests.families import deepseek_mark

OPEN, SEP = deepseek_mark("tool call begin"), deepseek_mark("tool sep")
OBJECTS = {"hermes": "arguments", "llama3_json": "parameters", "mistral": "arguments"}
"""Formats whose calls are one JSON object: the key of the arguments."""
HEADS = {
    "mistral_args": r"\[TOOL_CALLS\]([^\[\]{}\n]*)(?:\[CALL_ID\][^\[\]{}\n]*)?\[ARGS\]",
    "deepseek_v3": rf"{OPEN}function{SEP}([^\n<]*)\n(?=```json\n)",
    "deepseek_v31": rf"{OPEN}([^\n<]*){SEP}",
    "harmony": r"\bto=(?:functions\.)?([^\s<]+)(?:(?!<\|message\|>)[\s\S])*<\|message\|>",
}
"""Formats that write the name before the JSON."""
FENCE = re.compile(r"\s*(?:```(?:json)?\s*\n)?\s*")
DECODER = json.JSONDecoder(strict=False)
WORDS = {"null": None, "None": None, "true": True, "True": True, "false": False, "False": False}


def holds(name: str, text: str, calls: Sequence[ToolCall]) -> bool:
    """Whether the calls are found one behind the other, none of them twice in one place."""
    at = 0
    for call in calls:
        if name in OBJECTS:
            at = whole(text, at, call, OBJECTS[name])
        elif name in HEADS:
            at = headed(text, at, call, re.compile(HEADS[name]))
        else:
            at = coded(text, at, call)
        if at < 0:
            return False
    return True


def whole(text: str, at: int, call: ToolCall, key: str) -> int:
    """Where the first object from `at` on ends that is the call; -1 where none is."""
    wanted = {"name": call.name, key: dict(call.arguments)}
    for brace in re.finditer(r"\{", text[at:]):
        value, end = value_at(text, at + brace.start())
        if isinstance(value, dict):
            value.pop("id", None)
            ordered = {k: value[k] for k in ("name", key) if k in value}
            if len(ordered) == len(value) and same(ordered, wanted):
                return end
    return -1


def headed(text: str, at: int, call: ToolCall, head: re.Pattern[str]) -> int:
    """Where the first arguments from `at` on end that are the call's, behind its name."""
    for found in places(head, text, at):
        if found[1].strip() != call.name:
            continue
        fence = FENCE.match(text, found.end())
        value, end = value_at(text, fence.end() if fence else found.end())
        if same(value, dict(call.arguments)):
            return end
    return -1


def places(head: re.Pattern[str], text: str, at: int) -> Iterator[re.Match[str]]:
    """Every match, those inside each other too."""
    while found := head.search(text, at):
        yield found
        at = found.start() + 1


def coded(text: str, at: int, call: ToolCall) -> int:
    """Where the first tagged call from `at` on ends that is this one."""
    for found in places(re.compile(re.escape(f"<function={call.name}>")), text, at):
        end = found.end()
        for key, value in call.arguments.items():
            end = parameter(text, end, key, value) if end >= 0 else end
        close = re.compile(r"\s*</function>\s*</tool_call>").match(text, end) if end >= 0 else None
        if close:
            return close.end()
    return -1


def parameter(text: str, at: int, key: str, value: Any) -> int:
    """Where a parameter ends that stands at `at` and has this value; -1 where it does not."""
    found = re.compile(rf"\s*<parameter={re.escape(key)}>\n?").match(text, at)
    for close in re.finditer("</parameter>", text):
        if found and close.start() >= found.end():
            raw = text[found.end() : close.start()]
            if reads_as(raw, value):
                return close.end()
    return -1


def reads_as(raw: str, value: Any) -> bool:
    """Whether bare text is a value."""
    if isinstance(value, str):
        return raw.removesuffix("\n") == value
    word = raw.strip()
    if value is None or isinstance(value, bool):
        return word in WORDS and WORDS[word] is value
    found, end = value_at(word, 0)
    return end == len(word) and same(found, value)


def value_at(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins there, and where it ends."""
    try:
        return DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return ..., at


def same(a: Any, b: Any) -> bool:
    """Equal as JSON, in which true is not 1, and 1 is not 1.0; the order of keys too."""
    return a is not ... and json.dumps(a) == json.dumps(b)
