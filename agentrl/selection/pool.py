"""Pool: the rows of one group that may be kept, in rows of the caller's lists.

In    rewards, tokens, costs, group labels and validity, one each a row, as the caller has them
Out   a pool for each group in order of first appearance, and why other rows are out
Not   positions within groups of a fixed size: only labels say what belongs together
"""

from __future__ import annotations

import hashlib
import math
import operator
import reprlib
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentrl.errors import UsageError
from agentrl.selection.objective import Floats, Ints, Mask, ascending_is_flat

LARGEST = 1e150
"""Beyond this the square of a reward overflows."""

MOST = 2**53
"""Beyond this a count is no exact float."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """One group without the rows that cannot be compared: by reward, cost, tokens, row."""

    label: Hashable
    """What the caller calls the group; 0 where no labels were given."""
    of: int
    """Rows of the group, unusable ones included."""
    rows: Ints
    """Usable rows, as positions in the caller's lists."""
    rewards: Floats
    """One per usable row, ascending."""
    tokens: Ints
    """One per usable row."""
    costs: Ints
    """What each usable row counts against a budget."""
    averages: Floats
    """For each usable row, the mean tokens of those of equal reward."""
    seed: int
    before: int
    """Groups of equal content that came before: they must not draw alike."""

    def __len__(self) -> int:
        """Usable rows."""
        return self.rows.size

    @property
    def flat(self) -> bool:
        """Whether the rewards hold no contrast."""
        return ascending_is_flat(self.rewards)

    @property
    def key(self) -> tuple[int, ...]:
        """A seed that follows the content of the rows, not where they stand.

        Rows in another order, or among other groups, draw the same rewards and tokens.
        """
        content = _content(self.rewards, self.costs, self.tokens)
        digest = hashlib.blake2b(content, digest_size=16).digest()
        return (self.seed, self.before, int.from_bytes(digest))

    def generator(self) -> np.random.Generator:
        """Randomness that is the same at every call."""
        return np.random.default_rng(self.key)

    def draw(self) -> Ints:
        """A seeded random order of the positions."""
        return self.generator().permutation(len(self))


def read(
    rewards: Iterable[float | None],
    tokens: Iterable[int],
    groups: Iterable[Hashable] | None,
    valid: Iterable[bool] | None,
    seed: int,
    costs: Iterable[int] | None = None,
) -> tuple[tuple[Pool, ...], dict[int, str]]:
    """Pools, and for every row in none of them the reason."""
    given = listed(rewards, "rewards")
    size, values = len(given), _scores(given)
    forwarded = _column(tokens, "tokens", size)
    marked = _flags(valid, size)
    usable = marked & (np.abs(values) <= LARGEST)
    excluded = dict.fromkeys(np.flatnonzero(~usable).tolist(), "marked invalid")
    for row in excluded:
        if marked[row]:
            excluded[row] = unusable(None if given[row] is None else float(values[row]))
    lengths = _counts(forwarded, "tokens", usable)
    prices = lengths if costs is None else _counts(_column(costs, "costs", size), "costs", usable)
    labels, codes = _codes(groups, size)
    keys = [prices, values] if costs is None else [lengths, prices, values]
    order = np.lexsort((*keys, codes) if len(labels) > 1 else keys)
    order = order[usable[order]]
    table = Table(order, values[order], lengths[order], prices[order], codes[order])
    sizes = np.bincount(codes).tolist()
    return tuple(_pools(table, list(zip(labels, sizes, strict=True)), seed)), excluded


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Usable rows of all groups: by group, reward, cost, tokens, row."""

    rows: Ints
    rewards: Floats
    tokens: Ints
    costs: Ints
    codes: Ints
    """Which group a row is of."""

    def averages(self) -> Floats:
        """For each row the mean tokens of the rows of its group and reward."""
        fresh = np.zeros(self.rows.size, dtype=np.bool_)
        fresh[1:] = self.rewards[1:] != self.rewards[:-1]
        fresh[1:] |= self.codes[1:] != self.codes[:-1]
        level = np.cumsum(fresh)
        averages: Floats = (np.bincount(level, self.tokens) / np.bincount(level))[level]
        return averages


def _pools(table: Table, groups: Sequence[tuple[Hashable, int]], seed: int) -> Iterator[Pool]:
    """The pool of every label, with so many rows in all."""
    ends = np.cumsum(np.bincount(table.codes, minlength=len(groups))).tolist()
    averages, start = table.averages(), 0
    twins: Counter[bytes] = Counter()
    for (label, of), end in zip(groups, ends, strict=True):
        some = slice(start, end)
        rewards, tokens, costs = table.rewards[some], table.tokens[some], table.costs[some]
        content = _content(rewards, costs, tokens) if len(groups) > 1 else b""
        key = (seed, twins[content])
        yield Pool(label, of, table.rows[some], rewards, tokens, costs, averages[some], *key)
        twins[content] += 1
        start = end


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


def _scores(values: list[Any]) -> Floats:
    """Rewards as floats; NaN for None."""
    try:
        scores: Any = array("d", values)
    except (TypeError, ValueError, OverflowError):
        scores = [number(value, f"rewards[{row}]") for row, value in enumerate(values)]
    # Adding 0 makes a negative zero positive.
    return np.asarray(scores, dtype=np.float64) + 0.0


def _column(values: Any, where: str, size: int) -> list[Any]:
    """One value a row."""
    column = listed(values, where)
    if len(column) != size:
        raise UsageError(f"{where}: {len(column)} values for {size} rewards. Give one a row.")
    return column


def _flags(valid: Any, size: int) -> Mask:
    """Validities as bools."""
    if valid is None:
        return np.ones(size, dtype=np.bool_)
    flags = _column(valid, "valid", size)
    if not set(map(type, flags)) <= {bool}:
        flags = [_flag(flag, row) for row, flag in enumerate(flags)]
    return np.array(flags, dtype=np.bool_)


def _flag(value: Any, row: int) -> bool:
    """A validity as a bool; a text such as "false" would otherwise count as true."""
    if not isinstance(value, str) and value in (True, False):
        return bool(value)
    raise UsageError(f"valid[{row}]: {reprlib.repr(value)} is neither True nor False.")


def _counts(values: list[Any], where: str, usable: Mask) -> Ints:
    """Numbers of tokens; those of rows that are out do not matter and count 0."""
    try:
        counts = np.asarray(array("q", values), dtype=np.int64)
    except (TypeError, OverflowError):
        counts = np.full(1, -1)
    if counts.min(initial=0) >= 0 and counts.max(initial=0) <= MOST:
        return counts
    counts = np.zeros(len(values), dtype=np.int64)
    for row in np.flatnonzero(usable).tolist():
        counts[row] = _count(values[row], f"{where}[{row}]")
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


def _codes(groups: Iterable[Hashable] | None, size: int) -> tuple[list[Hashable], Ints]:
    """Different labels in order of first appearance, and which one each row has."""
    if groups is None:
        return [0] * min(size, 1), np.zeros(size, dtype=np.int64)
    places: dict[Hashable, int] = {}
    codes = []
    for row, label in enumerate(_column(groups, "groups", size)):
        try:
            codes.append(places.setdefault(label, len(places)))
        except TypeError:
            raise UsageError(
                f"groups[{row}]: {reprlib.repr(label)} cannot be a label. "
                "Give a text, a number or a tuple."
            ) from None
    return list(places), np.array(codes, dtype=np.int64)


def _content(rewards: Floats, costs: Ints, tokens: Ints) -> bytes:
    """All that draws depend on."""
    return b"".join((rewards.tobytes(), costs.tobytes(), tokens.tobytes()))
