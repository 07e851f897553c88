"""Hermes: tool calls written as JSON between `<tool_call>` tags.

In    the text of one assistant turn, and how it ended
Out   AssistantTurn: visible words, reasoning, and every call, sound or with its problem
Not   a repair shop: a call that is not exactly an object of `name` and `arguments` is refused
      in words, never guessed
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from agentrl.message import AssistantTurn, FinishReason, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
THINK, THOUGHT = "<think>", "</think>"
MAX_PROBLEM = 200
"""Characters of a problem, the echo of the policy's own words included."""

_MARK = re.compile(f"{OPEN}|{THINK}|{THOUGHT}")
_ANY = re.compile(f"{OPEN}|{CLOSE}|{THINK}|{THOUGHT}")
_FENCE = re.compile(r"\s*(?:```(?:json)?\s*\n)?\s*")
_END = re.compile(rf"\s*(?:```)?\s*{CLOSE}")


def parse(text: str, finish_reason: FinishReason = "stop") -> AssistantTurn:
    """Split a turn into words, reasoning and calls. Calls inside reasoning are reasoning."""
    words: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    at = 0
    while mark := _MARK.search(text, at):
        words.append(text[at : mark.start()])
        if mark[0] == THINK:
            thought, at = _thought(text, mark.end())
            thoughts.append(thought)
        elif mark[0] == THOUGHT:
            # Some templates open the reasoning in the prompt, so that only its end is sampled.
            words, calls, thoughts = [], [], [text[: mark.start()]]
            at = mark.end()
        else:
            call, at = _call(text, mark.end(), finish_reason)
            calls.append(call)
    words.append(text[at:])
    reasoning = "\n".join(t.strip() for t in thoughts if t.strip())
    return AssistantTurn("".join(words).strip(), tuple(calls), reasoning, finish_reason)


def _thought(text: str, start: int) -> tuple[str, int]:
    end = text.find(THOUGHT, start)
    return (text[start:], len(text)) if end < 0 else (text[start:end], end + len(THOUGHT))


def _call(text: str, start: int, finish_reason: FinishReason) -> tuple[ToolCall, int]:
    """The call whose tag ends at `start`, and where the text goes on."""
    begin = _FENCE.match(text, start)
    try:
        value, end = _DECODER.raw_decode(text, begin.end() if begin else start)
    except (ValueError, RecursionError) as error:
        stop, after = _region(text, start)
        return _malformed(
            "", _why(error, stop == len(text), finish_reason), text[start:stop]
        ), after
    closed = _END.match(text, end)
    if closed:
        return _sound(value, text[start:end]), closed.end()
    stop, after = _region(text, end)
    why = (
        "something follows the JSON object" if text[end:stop].strip() else _unclosed(finish_reason)
    )
    return _malformed(_name(value), why, text[start:stop]), after


def _region(text: str, start: int) -> tuple[int, int]:
    """Where a broken call ends: before the next tag, which is swallowed if it closes a call."""
    mark = _ANY.search(text, start)
    if mark is None:
        return len(text), len(text)
    return mark.start(), mark.end() if mark[0] == CLOSE else mark.start()


def _sound(value: Any, source: str) -> ToolCall:
    why = _objection(value)
    if why:
        return _malformed(_name(value), why, source)
    return ToolCall(value["name"], value["arguments"])


def _objection(value: Any) -> str:
    """What keeps a JSON value from being a call; empty where nothing does."""
    if not isinstance(value, dict):
        return f"expected one JSON object, not {_kind(value)}"
    if not isinstance(value.get("name"), str) or not value["name"]:
        return "`name` is missing or is not a string"
    extra = next((key for key in value if key not in ("name", "arguments")), None)
    if "arguments" not in value:
        where = " instead of `parameters`" if extra == "parameters" else ", {} if there are none"
        return f"`arguments` is missing: use `arguments`{where}"
    if not isinstance(value["arguments"], dict):
        return f"`arguments` must be a JSON object, not {_kind(value['arguments'])}"
    if extra is not None:
        return f"only `name` and `arguments` may stand there, not `{extra[:40]}`"
    return ""


def _name(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    return name[:80] if isinstance(name, str) else ""


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {list: "an array", str: "a string", bool: "a boolean", dict: "an object"}
    return kinds.get(type(value), "a number")


def _why(error: Exception, cut: bool, finish_reason: FinishReason) -> str:
    if cut and finish_reason == "length":
        return _unclosed(finish_reason)
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error.msg})"
    return f"not valid JSON ({str(error)[:60]})"


def _unclosed(finish_reason: FinishReason) -> str:
    if finish_reason == "length":
        return "the turn was cut by its length limit inside the call"
    return f"the call is not closed with {CLOSE}"


def _malformed(name: str, why: str, source: str) -> ToolCall:
    echo = " ".join(source[: 2 * MAX_PROBLEM].split())
    problem = f"{why}: {echo}"
    if len(problem) > MAX_PROBLEM:
        problem = problem[: MAX_PROBLEM - 3] + "..."
    return ToolCall(name, {}, problem.encode("utf-8", "replace").decode())


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key stands there twice")
    if any(not _encodable(x) for pair in pairs for x in pair if isinstance(x, str)):
        raise ValueError("half of a surrogate pair")
    return out


def _encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number out of range")
    return value


# Not strict: policies write code with raw newlines inside strings, and nothing else can be meant.
_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float
)
