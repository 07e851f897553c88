"""Plan: which rows share a micro-batch.

In    lengths of the rows to train on, a cap on the tokens of one micro-batch
Out   micro-batches that hold every row once, each no wider than its longest row
Not   shorter rows: nothing is cut, and a row above the cap is alone in its micro-batch
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows that go forward and backward together."""

    rows: tuple[int, ...]
    """Positions in the planned sequence, longest first."""
    tokens_padded: int
    """Rows times the longest of them: what memory and time pay for."""


def plan(lengths: Sequence[int], cap: int) -> tuple[MicroBatch, ...]:
    """Lay rows in as few micro-batches as rows sorted by length allow.

    The widest micro-batch comes first, so that a step that does not fit in memory
    says so at once, and later ones reuse the memory of earlier ones.
    """
    if cap < 1:
        raise ValueError(f"cap {cap}: a micro-batch holds at least one token.")
    if any(length < 1 for length in lengths):
        raise ValueError(f"row {min(range(len(lengths)), key=lengths.__getitem__)} is empty.")
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= cap:
            batches[-1].append(row)
        else:
            batches.append([row])
    return tuple(MicroBatch(tuple(rows), len(rows) * lengths[rows[0]]) for rows in batches)
