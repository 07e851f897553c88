"""Dialect: what two models must share for tokens of one to mean the same to the other.

In    a tokenizer with its chat template
Out   Dialect: hashes that records carry and readers compare
Not   the weights: any model of a dialect can learn from its tokens
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Dialect:
    """A vocabulary and a way to write conversations."""

    vocabulary: str
    """Sha256 of all entries with their ids."""
    template: str
    """Sha256 of the chat template."""
    size: int
    """Entries of the vocabulary."""

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)

    def differs(self, other: Mapping[str, Any]) -> str | None:
        """What a recorded dialect does not have in common with this one; None where all is."""
        for name in ("vocabulary", "template"):
            if other.get(name) != getattr(self, name):
                return name
        return None


def dialect_of(tokenizer: Any) -> Dialect:
    """The dialect of a Hugging Face tokenizer."""
    entries = sorted(tokenizer.get_vocab().items(), key=lambda entry: (entry[1], entry[0]))
    return Dialect(_sha(json.dumps(entries)), _sha(str(tokenizer.chat_template)), len(entries))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
