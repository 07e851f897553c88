"""Marks: text that a tokenizer reads as control tokens, kept out of what messages say.

In    the marks of one tokenizer; messages and tools as chat templates take them
Out   the same, in which no word is, or becomes part of, a mark
Not   a change of anything else: a conversation that holds no part of a mark stays as it is

A tool's result, a user's words or a policy's own may spell `<|im_end|>`; encoded as they are they
would end a turn. Such words get U+200B (a space where the tokenizer has no such character) behind
the mark's first character, so that they still read the same. A word may also be the part of a
mark that its template completes (a name that is `<|im_end|`, before a `>`). Whether one is can be
seen only in the rendering: it must have the marks that it has with harmless words in their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from agentrl.errors import RenderError

T = TypeVar("T")

ZERO_WIDTH = "\u200b"
STRUCTURE = frozenset(
    (
        *("role", "content", "name", "tool_calls", "reasoning_content", "type", "function"),
        *("arguments", "description", "parameters", "properties", "required", "items", "enum"),
        *("title", "default", "anyOf", "oneOf", "allOf", "$ref", "$defs"),
        *("system", "user", "assistant", "tool"),
        *("object", "string", "integer", "number", "boolean", "array", "null"),
    )
)
"""Words by which templates find their way, and which are therefore never replaced."""


@dataclass(frozen=True)
class Marks:
    """The marks of one tokenizer."""

    texts: tuple[str, ...]
    """As they are spelled, two characters or more each."""
    ids: frozenset[int]
    """Their tokens."""
    encode: Callable[[str], Sequence[int]]
    breaker: str = ZERO_WIDTH
    """What is put into a mark to break it."""
    loose: bool = False
    """The tokenizer folds text before it looks for some marks: other spellings are marks too."""

    def broken(self, word: str) -> str:
        """The word with every mark in it broken; itself where it holds none."""
        while self._pattern.search(word):
            word = self._pattern.sub(lambda m: m[0][0] + self.breaker + m[0][1:], word)
        return word

    def kept_out(self, said: Any, read: Callable[[Any], T], ids: Callable[[T], Iterable[int]]) -> T:
        """What `read` makes of messages and tools, with no mark that is not the template's own.

        Args:
            said: Lists and dicts of words.
            read: Renders and encodes them.
            ids: The tokens in what `read` gave.

        Raises:
            RenderError: the template makes marks of words whatever is done to them.
        """
        broken = {self.broken(word) for word in _words(said) if self._pattern.search(word)}
        said = _mapped(said, self.broken) if broken else said
        found = read(said)
        parts = {word for word in _words(said) if word in broken or self._suspect(word)}
        if not parts:
            return found
        harmless = {word: f"word{i}" for i, word in enumerate(sorted(parts))}
        wanted = self._of(ids(read(_mapped(said, lambda word: harmless.get(word, word)))))
        if self._of(ids(found)) == wanted:
            return found
        apart = _mapped(said, lambda word: self._apart(word) if word in parts else word)
        found = read(apart)
        if self._of(ids(found)) == wanted:
            return found
        raise RenderError("its template makes control tokens of what messages say.")

    def _of(self, ids: Iterable[int]) -> list[int]:
        return [token for token in ids if token in self.ids]

    def _apart(self, word: str) -> str:
        """The word with nothing at its ends, nor in it, that a mark could be made of."""
        inside = self.ids.isdisjoint(self.encode(word))
        return self.breaker.join(("", word, "") if inside else ("", *word, ""))

    def _suspect(self, word: str) -> bool:
        """Whether a word may be a part of a mark; it holds no whole one."""
        word = word.strip()
        if not word or word in STRUCTURE:
            return False
        sizes = range(1, min(len(word), self._longest) + 1)
        return (
            self.loose
            or any(word[-size:] in self._heads or word[:size] in self._tails for size in sizes)
            or (len(word) < self._longest and any(word in text for text in self.texts))
        )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.texts, key=lambda text: (-len(text), text))
        return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.texts), default=0)

    @cached_property
    def _heads(self) -> frozenset[str]:
        return frozenset(text[:size] for text in self.texts for size in range(1, len(text)))

    @cached_property
    def _tails(self) -> frozenset[str]:
        return frozenset(text[size:] for text in self.texts for size in range(1, len(text)))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The value with every word changed, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(inner, change) for key, inner in value.items()}
    return [_mapped(inner, change) for inner in value] if isinstance(value, list | tuple) else value


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (word for inner in (*value, *value.values()) for word in _words(inner))
    elif isinstance(value, list | tuple):
        yield from (word for inner in value for word in _words(inner))
