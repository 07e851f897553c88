"""A format: how one family of models writes tool calls.

In    the text of one sampled turn, how it ended, the schemas of the tools
Out   Format: a value of the table; `parse` gives the turn with its calls
Not   a template: how messages become text is the model's own affair (template.py)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentrl.message import AssistantTurn, FinishReason

Tools: TypeAlias = Sequence[Mapping[str, Any]]
"""Tools as chat templates take them: `{"type": "function", "function": {...}}`."""
Parse: TypeAlias = Callable[[str, FinishReason, Tools], AssistantTurn]


def _no_ids(text: str) -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write calls."""

    name: str
    parse: Parse
    """Text of a turn without its end marker → the turn. Never raises for what the text is."""
    think: str = "<think>"
    """What begins reasoning, as the policy writes it."""
    thought: str = "</think>"
    """What shows, in text that has been said, that there was reasoning."""
    ends: tuple[str, ...] = ()
    """Tokens that end a turn beside the template's own, where the model knows them."""
    call_ids: Callable[[str], list[str]] = _no_ids
    """Ids that the policy gave the calls of the last turn of a text; results must name them."""
