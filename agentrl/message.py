"""The words that pass between a policy and its environment.

In    plain values: strings, and dicts as chat templates read them
Out   Message (a chat dict), ToolCall, AssistantTurn, ToolOutcome, Turn
Not   tokens: the same message may be many token sequences (render.py decides which)
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

FinishReason = Literal["stop", "length"]
OutcomeStatus = Literal["ok", "error", "timeout", "unknown_tool", "bad_arguments", "malformed"]


class FunctionCall(TypedDict):
    """Name and arguments of a call, as chat templates expect them."""

    name: str
    arguments: dict[str, Any]


class ToolCallDict(TypedDict):
    """One entry of a message's `tool_calls`."""

    type: Literal["function"]
    function: FunctionCall


class Message(TypedDict):
    """One chat message: what a template renders and what a run records."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    name: NotRequired[str]
    tool_calls: NotRequired[list[ToolCallDict]]
    reasoning_content: NotRequired[str]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the policy wrote it; malformed where `problem` says so."""

    name: str
    arguments: Mapping[str, Any]
    """Parsed arguments; empty where the call is malformed: they are never invented."""
    problem: str | None = None
    """Why the call cannot be run, in words for the policy; None for a sound call."""


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """What the policy said in one turn, parsed but never rewritten."""

    text: str
    """Visible words, without calls and reasoning."""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish_reason: FinishReason = "stop"
    """`length` where the turn was cut: then none of its calls may run."""

    def message(self) -> Message:
        """The turn as a chat message; malformed calls are left out."""
        out = Message(role="assistant", content=self.text)
        sound = [call for call in self.calls if call.problem is None]
        if sound:
            out["tool_calls"] = [
                {"type": "function", "function": {"name": c.name, "arguments": dict(c.arguments)}}
                for c in sound
            ]
        if self.reasoning:
            out["reasoning_content"] = self.reasoning
        return out


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of one call, in the order the calls were written."""

    name: str
    content: str
    status: OutcomeStatus = "ok"
    reward: float = 0.0
    seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Named numbers that the tool gave beside its words."""

    def message(self) -> Message:
        """The outcome as the policy reads it."""
        return Message(role="tool", content=self.content, name=self.name)


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange: what the policy said, what its tools returned, what the user said next."""

    assistant: AssistantTurn
    outcomes: tuple[ToolOutcome, ...] = ()
    reply: str | None = None

    @property
    def text(self) -> str:
        """Visible words of the policy."""
        return self.assistant.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Calls of the policy, sound or not."""
        return self.assistant.calls

    def messages(self) -> list[Message]:
        """The exchange as chat messages, assistant first."""
        out = [self.assistant.message(), *(o.message() for o in self.outcomes)]
        if self.reply is not None:
            out.append(Message(role="user", content=self.reply))
        return out


def copied(messages: Iterable[Message]) -> list[Message]:
    """Messages that share nothing with these which a caller could change."""
    return [_copied(message) for message in messages]


def _copied(message: Message) -> Message:
    # Text can't be changed, and deepcopy is slow to find that out.
    is_flat = type(message) is dict and all(type(value) is str for value in message.values())
    return message.copy() if is_flat else copy.deepcopy(message)
