"""Spaces of messages and of what a policy says, for gymnasium.

In    any Python value
Out   whether it is an observation (chat messages) or an action (Unicode text or a parsed turn)
Not   arrays: `gymnasium.spaces.Text` refuses most of Unicode and pads in shared memory
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from agentrl.message import AssistantTurn, Message

ROLES = ("system", "user", "assistant", "tool")
_ALPHABET = "abc xyz 0123456789 +-*/= äπ中\n"


class _TextSpace(gymnasium.Space[Any]):
    """What the two spaces share: no shape, equality by kind."""

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no fixed size."""
        return False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _words(self) -> str:
        size = int(self.np_random.integers(1, 20))
        return "".join(_ALPHABET[i] for i in self.np_random.integers(len(_ALPHABET), size=size))


class MessagesSpace(_TextSpace):
    """Any list of chat messages, the empty one included."""

    def sample(self, mask: Any = None, probability: Any = None) -> list[Message]:
        """One user message of random text."""
        return [Message(role="user", content=self._words())]

    def contains(self, x: Any) -> bool:
        """Whether it is a sequence of messages with a known role and text."""
        return isinstance(x, list | tuple) and all(_is_message(item) for item in x)


class ActionSpace(_TextSpace):
    """Any text, or a turn that is already parsed."""

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Random text without calls."""
        return self._words()

    def contains(self, x: Any) -> bool:
        """Whether it can be stepped with."""
        return isinstance(x, str | AssistantTurn)


def _is_message(item: Any) -> bool:
    return (
        isinstance(item, Mapping)
        and item.get("role") in ROLES
        and isinstance(item.get("content"), str)
    )
