"""Calls as the leaderboard writes gold answers: Python with literals, read and never run.

In    `mv(source='a.txt', destination='b')`
Out   GoldCall; the same call in the words of a policy
Not   Python: names, nested calls and arithmetic are refused
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class GoldCall:
    """One call of a right solution."""

    name: str
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self, order: Sequence[str]) -> dict[str, Any]:
        """All arguments by name, given the order of the function's parameters."""
        return {**dict(zip(order, self.positional, strict=False)), **self.named}


def read_call(text: str) -> GoldCall:
    """The call that a text writes; ValueError where it is not one of a name with literals."""
    node = ast.parse(text.strip(), mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"{text[:80]!r} is no call of a function by its name")
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError(f"{text[:80]!r} unpacks arguments")
    named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return GoldCall(node.func.id, tuple(ast.literal_eval(value) for value in node.args), named)


def words(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Names and arguments as one turn of a policy, in Hermes JSON."""
    return "\n".join(
        f"<tool_call>\n{json.dumps({'name': n, 'arguments': a}, ensure_ascii=False)}\n</tool_call>"
        for n, a in calls
    )
