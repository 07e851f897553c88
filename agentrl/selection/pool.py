"""Pool: the rows of one group that may be kept, in rows of the caller's lists.

In    rewards, tokens, group labels and validity, one each a row, as the caller has them
Out   a pool for each group in order of first appearance, and why other rows are out
Not   positions within groups of a fixed size: only labels say what belongs together
"""

from __future__ import annotations

import hashlib
import math
import operator
import reprlib
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentrl.errors import UsageError

LARGEST = 1e150
"""Beyond this the square of a reward overflows."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One group without the rows that cannot be compared."""

    label: Hashable
    """What the caller calls the group; 0 where no labels were given."""
    of: int
    """Rows of the group, unusable ones included."""
    rows: tuple[int, ...]
    """Usable rows, ascending, as positions in the caller's lists."""
    rewards: tuple[float, ...]
    """One per usable row."""
    tokens: tuple[int, ...]
    """One per usable row."""
    draw: tuple[int, ...]
    """A seeded random order of the positions in `rows`."""

    def rewards_of(self, positions: Iterable[int]) -> list[float]:
        """Rewards of some of the usable rows."""
        return [self.rewards[position] for position in positions]

    def cost(self, positions: Iterable[int]) -> int:
        """Tokens of some of the usable rows."""
        return sum(self.tokens[position] for position in positions)


def read(
    rewards: Iterable[float | None],
    tokens: Iterable[int],
    groups: Iterable[Hashable] | None,
    valid: Iterable[bool] | None,
    seed: int,
) -> tuple[tuple[Pool, ...], dict[int, str]]:
    """Pools, and for every row in none of them the reason."""
    scores = [number(r, f"rewards[{i}]") for i, r in enumerate(listed(rewards, "rewards"))]
    size = len(scores)
    costs = _column(tokens, "tokens", size)
    usable = [_flag(v, i) for i, v in enumerate(_column(valid, "valid", size, True))]
    members = _members(_column(groups, "groups", size, 0))
    excluded = {
        row: why
        for row in range(size)
        if (why := unusable(scores[row]) if usable[row] else "marked invalid")
    }
    twins: Counter[bytes] = Counter()
    pools = []
    for label, every in members.items():
        rows = tuple(row for row in every if row not in excluded)
        kept_scores = tuple(float(scores[row] or 0.0) for row in rows)
        kept_costs = tuple(_count(costs[row], f"tokens[{row}]") for row in rows)
        draw = _draw(kept_scores, kept_costs, seed, twins)
        pools.append(Pool(label, len(every), rows, kept_scores, kept_costs, draw))
    return tuple(pools), excluded


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


def _column(values: Any, where: str, size: int, default: Any = None) -> list[Any]:
    """One value a row; the default for each where the caller gave none."""
    if values is None and default is not None:
        return [default] * size
    column = listed(values, where)
    if len(column) != size:
        raise UsageError(f"{where}: {len(column)} values for {size} rewards. Give one a row.")
    return column


def _flag(value: Any, row: int) -> bool:
    """A validity as a bool; a text such as "false" would otherwise count as true."""
    if not isinstance(value, str) and value in (True, False):
        return bool(value)
    raise UsageError(f"valid[{row}]: {reprlib.repr(value)} is neither True nor False.")


def _count(value: Any, where: str) -> int:
    """A number of tokens; 12.0 is one, 12.5 is none."""
    whole = isinstance(value, float) and value.is_integer()
    try:
        count = int(value) if whole else operator.index(value)
    except TypeError:
        count = -1
    if count >= 0:
        return count
    raise UsageError(
        f"{where}: {reprlib.repr(value)} is not a number of tokens. "
        "Give a whole number of at least 0."
    )


def _members(labels: Sequence[Any]) -> dict[Hashable, list[int]]:
    """Rows of each label, labels in order of first appearance."""
    members: dict[Hashable, list[int]] = {}
    for row, label in enumerate(labels):
        try:
            members.setdefault(label, []).append(row)
        except TypeError:
            raise UsageError(
                f"groups[{row}]: {reprlib.repr(label)} cannot be a label. "
                "Give a text, a number or a tuple."
            ) from None
    return members


def _draw(
    rewards: Sequence[float], tokens: Sequence[int], seed: int, twins: Counter[bytes]
) -> tuple[int, ...]:
    """A random order that follows the content of the rows, not where they stand.

    Rows in another order, or among other groups, draw the same rewards and tokens.
    Groups with equal content differ by how many came before, lest they draw alike.
    """
    ranked = sorted(range(len(rewards)), key=lambda i: (rewards[i], tokens[i], i))
    content = repr([(rewards[i] + 0.0, tokens[i]) for i in ranked]).encode()
    key = hashlib.blake2b(content, digest_size=16).digest()
    generator = np.random.default_rng([seed, twins[key], int.from_bytes(key)])
    twins[key] += 1
    return tuple(ranked[i] for i in generator.permutation(len(ranked)).tolist())
