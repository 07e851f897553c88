"""Recorded calls → how often each tool was called, and what became of the calls.

In    lines of episodes
Out   a count by tool and outcome
Not   a guess from a tool's words: where outcomes were not recorded, that is the outcome
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agentrl.view.transcript import STATUS

UNKNOWN = ""
"""Outcome of a call whose line does not record it."""
OUTCOMES = {**STATUS, "ok": "came back"}
"""What became of a call, in words."""

Calls = Counter[tuple[str, str]]
"""Tool and outcome to the number of calls."""


def count(calls: Calls, row: Mapping[str, Any]) -> None:
    """Add the calls of an episode."""
    messages = [m for m in row["messages"] if isinstance(m, Mapping)]
    answered = [str(m.get("name") or "?") for m in messages if m.get("role") == "tool"]
    statuses = list(_statuses(row))
    if len(statuses) == len(answered):
        calls.update(zip(answered, statuses, strict=True))
    else:
        calls.update((name, UNKNOWN) for name in _called(messages))


def _statuses(row: Mapping[str, Any]) -> Iterator[str]:
    for turn in row.get("outcomes") or ():
        for outcome in turn if isinstance(turn, list) else ():
            status = outcome.get("status") if isinstance(outcome, Mapping) else None
            yield status if status in OUTCOMES else UNKNOWN


def _called(messages: list[Mapping[str, Any]]) -> Iterator[str]:
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, Mapping) else None
            yield str(function.get("name") or "?") if isinstance(function, Mapping) else "?"
