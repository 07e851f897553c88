"""Which weights a server says it computes with.

In    the tag of a run, a version; what a server says of the tokens it sampled
Out   a label for a server; versions by token index
Not   a proof: a label is what was written on the weights, the fingerprint is what they do
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tag:
    """Tells the weights of this run from those of others that use the same servers."""

    text: str

    def of(self, version: int) -> str:
        """The label of a version; as the name of an adapter, it is the adapter's too."""
        return f"agentrl-{self.text}-{version}"

    def version(self, label: object) -> int | None:
        """The version that a label names; None: it is not of this run."""
        head, _, number = str(label).rpartition("-")
        ours = head == f"agentrl-{self.text}" and number.isdecimal()
        return int(number) if ours else None


@dataclass(frozen=True, slots=True)
class Versions:
    """Of a completion's tokens: the first one's, and where they changed."""

    first: int
    changes: tuple[tuple[int, int], ...] = ()


def read_spans(spans: Sequence[Mapping[str, Any]], tokens: int, tag: Tag) -> Versions | None:
    """Versions of sampled tokens; None where spans leave a gap or name weights of others."""
    found: list[tuple[int, int]] = []
    at = 0
    for span in spans:
        version = tag.version(span["version"])
        if version is None or span["start"] != at:
            return None
        at = span["end"]
        if not found or found[-1][1] != version:
            found.append((span["start"], version))
    if at != tokens or not found:
        return None
    return Versions(found[0][1], tuple(found[1:]))
