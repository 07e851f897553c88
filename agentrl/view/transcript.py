"""A recorded line → cards: who said what, what became of calls, which tokens were sampled.

In    a line, and what turns token ids into text
Out   plain values for a page, one card a message, in order
Not   HTML, nor any change of what was said: whoever shows it makes it harmless
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from agentrl.view.brief import messages_of, number, outcomes_of
from agentrl.view.words import Pieces, numbered

STATUS = {
    "ok": "",
    "error": "failed",
    "timeout": "took too long",
    "unknown_tool": "no such tool",
    "bad_arguments": "wrong arguments",
    "malformed": "the call cannot be read",
}
"""What became of a call, in words; empty for a result."""
STOPS = {
    "answer": "it answered",
    "tool_end": "a tool ended it",
    "max_turns": "no turns left",
    "max_tokens": "no tokens left",
    "context": "the context was full",
    "max_tool_calls": "no tool calls left",
    "timeout": "the time was up",
    "parse": "too many turns in a row could not be read",
    "env_error": "infrastructure broke; it is not scored",
}
MOST_TOKENS = 2**31
"""No vocabulary has as many."""
ROLES = {"system": "system", "user": "task", "tool": "tool"}


def cards(row: Mapping[str, Any], pieces: Pieces = numbered) -> list[dict[str, Any]]:
    """The conversation of a line."""
    messages = messages_of(row)
    said = [i for i, m in enumerate(messages) if m.get("role") == "assistant"]
    turns = row.get("turns")
    # Before the policy's own turns a task may show some that others wrote.
    own = said[len(said) - turns :] if isinstance(turns, int) and 0 < turns <= len(said) else said
    statuses = iter(_statuses(row, len(own)))
    sampled = _sampled(row, pieces)
    if len(sampled) != len(own):
        sampled = []
    found: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        card = _card(message)
        if at in own:
            turn = own.index(at)
            card |= {"kind": "policy", "title": f"turn {turn + 1}", "mine": True}
            if sampled:
                card["tokens"] = sampled[turn]
        elif own and at > own[0] and card["kind"] == "tool":
            status = next(statuses, None)
            if status is not None:
                card["status"] = status
                card["failed"] = STATUS.get(status, status)
        elif own and at > own[0] and card["kind"] == "task":
            card["title"] = "user"
        found.append(card)
    return found


def _card(message: Mapping[str, Any]) -> dict[str, Any]:
    role = str(message.get("role"))
    kind = ROLES.get(role, "other")
    name = message.get("name")
    card: dict[str, Any] = {
        "kind": kind,
        "title": str(name) if name else ROLES.get(role, role),
        "text": _text(message.get("content")),
    }
    if message.get("reasoning_content"):
        card["thinking"] = _text(message["reasoning_content"])
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        card["calls"] = [_call(call) for call in calls]
    return card


def _call(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return {"name": "", "args": [["", _text(call)]]}
    arguments = function.get("arguments", {})
    if not isinstance(arguments, Mapping):
        return {"name": str(function.get("name")), "args": [["", _text(arguments)]]}
    named = [[str(key), _text(value)] for key, value in arguments.items()]
    return {"name": str(function.get("name")), "args": named}


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _statuses(row: Mapping[str, Any], turns: int) -> Iterator[str]:
    """What became of each call, in the order of the results; none where the line does not say."""
    outcomes = outcomes_of(row)
    if outcomes is not None and len(outcomes) == turns:
        yield from (status for turn in outcomes for status in turn)


def _sampled(row: Mapping[str, Any], pieces: Pieces) -> list[dict[str, Any]]:
    """Runs of sampled tokens: their texts and log-probs; none where tokens were not recorded."""
    ids, mask, logprobs = (row.get(name) for name in ("input_ids", "loss_mask", "logprobs"))
    if not (isinstance(ids, list) and isinstance(mask, list) and isinstance(logprobs, list)):
        return []
    known = all(isinstance(i, int) and 0 <= i < MOST_TOKENS for i in ids)
    if not known or not len(ids) == len(mask) == len(logprobs):
        return []
    found = []
    for start, end in _branches(row, len(ids)):
        for own, run in groupby(range(start, end), key=lambda i: bool(mask[i])):
            where = list(run)
            if own:
                found.append(_tokens([ids[i] for i in where], [logprobs[i] for i in where], pieces))
    return found


def _tokens(ids: Sequence[int], logprobs: Sequence[object], pieces: Pieces) -> dict[str, Any]:
    known = (number(value) for value in logprobs)
    rounded = [None if value is None else round(value, 3) for value in known]
    return {"text": pieces(ids), "logprobs": rounded}


def _branches(row: Mapping[str, Any], size: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each token sequence."""
    found, start = row.get("branches"), 0
    lengths = [n for n in found if isinstance(n, int) and n >= 0] if isinstance(found, list) else []
    for length in lengths if sum(lengths) == size else [size]:
        yield start, start + length
        start += length
