"""Pool: the rows of one group that may be kept, in rows of the caller's lists.

In    rewards, tokens, costs, group labels and validity, one each a row, as the caller has them
Out   a pool for each group in order of first appearance, and why other rows are out
Not   positions within groups of a fixed size: only labels say what belongs together
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from agentrl.selection.columns import (
    LARGEST,
    column,
    counted,
    flagged,
    labelled,
    listed,
    scored,
    unusable,
)
from agentrl.selection.objective import Floats, Ints, ascending_is_flat


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
    size, values = len(given), scored(given)
    forwarded = column(tokens, "tokens", size)
    marked = flagged(valid, size)
    usable = marked & (np.abs(values) <= LARGEST)
    excluded = dict.fromkeys(np.flatnonzero(~usable).tolist(), "marked invalid")
    for row in excluded:
        if marked[row]:
            excluded[row] = unusable(None if given[row] is None else float(values[row]))
    # Costs first: where they were made of tokens, how is what was wrong.
    own = None if costs is None else counted(column(costs, "costs", size), "costs", usable)
    lengths = counted(forwarded, "tokens", usable)
    prices = lengths if own is None else own
    labels, codes = labelled(groups, size)
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


def _content(rewards: Floats, costs: Ints, tokens: Ints) -> bytes:
    """All that draws depend on."""
    return b"".join((rewards.tobytes(), costs.tobytes(), tokens.tobytes()))
