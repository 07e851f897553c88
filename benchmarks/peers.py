"""Rows to choose from under a token budget, and other ways to choose than `agentrl.select`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentrl.selection import Report, select
from agentrl.selection.objective import q
from agentrl.selection.ranking import nested

FAMILIES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "binary": lambda rng, n: (rng.random(n) < 0.5).astype(float),
    "3 levels": lambda rng, n: rng.integers(0, 3, n) / 2,
    "21 levels": lambda rng, n: rng.integers(0, 21, n) / 20,
    "gaussian": lambda rng, n: rng.normal(size=n),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """What is chosen from."""

    rewards: list[float]
    tokens: list[int]
    groups: list[int]
    m: int
    budget: int


Kept = tuple[list[int], float | None]
"""Kept rows, and the upper bound where the method has one."""


def one_group(rng: np.random.Generator, family: str, n: int, share: float) -> Rows:
    """A group of n, m = n / 4, and a budget of a share of m mean rows."""
    rewards = FAMILIES[family](rng, n).tolist()
    tokens = np.maximum(1, np.round(300 * rng.lognormal(0, 0.7, n))).astype(int)
    budget = max(1, int(share * (n // 4) * tokens.mean()))
    return Rows(rewards, tokens.tolist(), [0] * n, n // 4, budget)


def many_groups(seed: int, family: str, share: float, m: int = 32) -> Rows:
    """64 groups of 32 with one budget, a share of all their tokens; failures are longer."""
    rng = np.random.default_rng([seed, 64])
    rewards, tokens = [], []
    for _ in range(64):
        if family == "binary":
            own = (rng.random(32) < rng.beta(0.5, 0.5)).astype(float)
            longer = 1.4 - 0.4 * own
        else:
            own = FAMILIES[family](rng, 32)
            longer = np.where(own > np.median(own), 1.0, 1.4)
        tokens += np.round(300 * rng.lognormal(0, 0.7, 32) * longer + 1).astype(int).tolist()
        rewards += own.tolist()
    groups = [row // 32 for row in range(64 * 32)]
    return Rows(rewards, tokens, groups, m, int(share * sum(tokens)))


def report_of(rows: Rows, **options: Any) -> Report:
    """What `select` says of the rows."""
    groups = rows.groups if rows.groups[-1] else None
    asked = {"m": rows.m, "token_budget": rows.budget, "groups": groups, **options}
    return select(rows.rewards, rows.tokens, **asked).report


def selected(rows: Rows, **options: Any) -> Kept:
    """What it keeps of them."""
    done = report_of(rows, **options)
    return [row for group in done.groups.values() for row in group.kept], done.upper_bound


def drop_longest(rows: Rows) -> Kept:
    """PODS, then the longest goes until the rest fits."""
    kept = selected(rows, token_budget=None)[0]
    kept.sort(key=lambda row: -rows.tokens[row])
    spent = sum(rows.tokens[row] for row in kept)
    start = 0
    while spent > rows.budget:
        spent -= rows.tokens[kept[start]]
        start += 1
    return kept[start:], None


def skip_misfits(rows: Rows) -> Kept:
    """Two-ended growth of one group over what still fits."""
    return _greedy(rows, nested(rows.rewards, range(len(rows.rewards))))


def cheapest_first(rows: Rows) -> Kept:
    """Shortest first."""
    return _greedy(rows, sorted(range(len(rows.rewards)), key=lambda row: rows.tokens[row]))


def random_fit(rows: Rows) -> Kept:
    """Any that fit."""
    return selected(rows, rule="random")[0], None


def _greedy(rows: Rows, order: Iterable[int]) -> Kept:
    kept: list[int] = []
    left = rows.budget
    for row in order:
        if rows.tokens[row] <= left and len(kept) < rows.m:
            kept.append(row)
            left -= rows.tokens[row]
    return kept, None


METHODS: dict[str, Callable[[Rows], Kept]] = {
    "select": selected,
    "drop": drop_longest,
    "skip": skip_misfits,
    "random": random_fit,
    "cheapest": cheapest_first,
}


def quotas(rows: Rows, *, to_flat: bool) -> float:
    """Q of exact choices where every group has an equal share of the tokens."""
    members: dict[int, list[int]] = {}
    for row, group in enumerate(rows.groups):
        members.setdefault(group, []).append(row)
    active = [some for some in members.values() if len({rows.rewards[row] for row in some}) > 1]
    own = rows.budget // (len(members) if to_flat else len(active))
    return sum(
        select(
            [rows.rewards[row] for row in some],
            [rows.tokens[row] for row in some],
            m=rows.m,
            token_budget=own,
        ).report.q_kept
        for some in active
    )


def worth(rows: Rows, kept: Sequence[int]) -> float:
    """Q of kept rows, summed over groups."""
    own: dict[int, list[float]] = {}
    for row in kept:
        own.setdefault(rows.groups[row], []).append(rows.rewards[row])
    return sum(q(rewards) for rewards in own.values())
