"""Memo: what was made lately, so that the same need not be made again.

In    a key that says all that the value depends on
Out   the value; made where it is not at hand
Not   a value that may be changed: whoever asks next gets the same object
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Memo(Generic[V]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        """Begin with none; of more than `most` the one asked for longest ago goes."""
        self._most = most
        self._values: dict[Hashable, V] = {}

    def of(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of a key; what `make` raises is raised, and nothing is kept."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]
        return value
