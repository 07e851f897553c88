"""Columns: what the caller gives, one value a row, as arrays.

In    rewards, tokens, costs, validities and labels, in lists or arrays
Out   numpy arrays; a value that is none is refused with its row
Not   groups: pool.py puts rows together
"""

from __future__ import annotations

import math
import operator
import reprlib
from array import array
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from agentrl.errors import UsageError
from agentrl.selection.objective import Floats, Ints, Mask

LARGEST = 1e150
"""Beyond this the square of a reward overflows."""

MOST = 2**53
"""Beyond this a number of tokens, or their total, is no exact float."""


def unusable(reward: float | None) -> str:
    """Why a reward cannot be compared with others; empty if it can."""
    if reward is None:
        return "reward None: not scorable"
    if not math.isfinite(reward):
        return f"reward {reward}: not finite"
    return f"reward {reward:g}: too large to square" if abs(reward) > LARGEST else ""


def number(value: Any, where: str) -> float | None:
    """A reward as a float; None stays None."""
    if value is None:
        return None
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        raise UsageError(
            f"{where}: {reprlib.repr(value)} is not a number. "
            "Give a number, or None where there is no score."
        ) from None


def listed(values: Any, where: str) -> list[Any]:
    """A list of plain values; arrays give theirs, because array items make poor labels."""
    try:
        return list(values.tolist() if hasattr(values, "tolist") else values)
    except TypeError:
        raise UsageError(
            f"{where}: {reprlib.repr(values)} is not a list. Give one value a row."
        ) from None


def scored(values: list[Any]) -> Floats:
    """Rewards as floats; NaN for None."""
    try:
        scores: Any = array("d", values)
    except (TypeError, ValueError, OverflowError):
        scores = [number(value, f"rewards[{row}]") for row, value in enumerate(values)]
    # Adding 0 makes a negative zero positive.
    return np.asarray(scores, dtype=np.float64) + 0.0


def column(values: Any, where: str, size: int) -> list[Any]:
    """One value a row."""
    items = listed(values, where)
    if len(items) != size:
        raise UsageError(f"{where}: {len(items)} values for {size} rewards. Give one a row.")
    return items


def flagged(valid: Any, size: int) -> Mask:
    """Validities as bools."""
    if valid is None:
        return np.ones(size, dtype=np.bool_)
    flags = column(valid, "valid", size)
    if not set(map(type, flags)) <= {bool}:
        flags = [_flag(flag, row) for row, flag in enumerate(flags)]
    return np.array(flags, dtype=np.bool_)


def _flag(value: Any, row: int) -> bool:
    """A validity as a bool; a text such as "false" would otherwise count as true."""
    if not isinstance(value, str) and value in (True, False):
        return bool(value)
    raise UsageError(f"valid[{row}]: {reprlib.repr(value)} is neither True nor False. Write one.")


def counted(values: list[Any], where: str, usable: Mask) -> Ints:
    """Numbers of tokens; those of rows that are out do not matter and count 0."""
    try:
        counts = np.asarray(array("q", values), dtype=np.int64)
    except (TypeError, OverflowError):
        counts = np.full(1, -1)
    if counts.min(initial=0) >= 0 and int(counts.max(initial=0)) * counts.size <= MOST:
        return counts
    counts = np.zeros(len(values), dtype=np.int64)
    for row in np.flatnonzero(usable).tolist():
        counts[row] = _count(values[row], f"{where}[{row}]")
    total = sum(counts.tolist())
    if total > MOST:
        raise UsageError(
            f"{where}: {total} in all are more than 2**53. No sum of so many is exact. "
            "Count in larger units, such as thousands of tokens."
        )
    return counts


def _count(value: Any, where: str) -> int:
    """A number of tokens; 12.0 is one, 12.5 is none."""
    whole = isinstance(value, float) and value.is_integer()
    try:
        count = int(value) if whole else operator.index(value)
    except TypeError:
        count = -1
    if 0 <= count <= MOST:
        return count
    raise UsageError(
        f"{where}: {reprlib.repr(value)} is not a number of tokens. "
        f"Give a whole number of at least 0{' and at most 2**53' if count > MOST else ''}."
    )


def labelled(groups: Iterable[Hashable] | None, size: int) -> tuple[list[Hashable], Ints]:
    """Different labels in order of first appearance, and which one each row has."""
    if groups is None:
        return [0] * min(size, 1), np.zeros(size, dtype=np.int64)
    labels = column(groups, "groups", size)
    try:
        places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    except TypeError:
        raise UsageError(_unhashable(labels)) from None
    return list(places), np.fromiter(map(places.__getitem__, labels), np.int64, size)


def _unhashable(labels: list[Any]) -> str:
    """Which label cannot be one."""
    for row, label in enumerate(labels):
        try:
            hash(label)
        except TypeError:
            return (
                f"groups[{row}]: {reprlib.repr(label)} cannot be a label. "
                "Give a text, a number or a tuple."
            )
    return "groups: a label cannot be told apart from others. Give texts or numbers."
