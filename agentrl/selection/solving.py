"""Choice: the kept rows of every group, with a bound on what was possible.

In    pools, a rule, m, the order among equals, and perhaps a token budget
Out   positions for each pool, the method, the bound on Q and the price of a token
Not   a best choice under a budget that binds: that is refused, never approximated
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrl.errors import UsageError
from agentrl.selection.objective import is_flat, q
from agentrl.selection.pool import Pool
from agentrl.selection.rules import RULES, WITHIN, Order, max_variance

OPTIMAL = "max_variance"


@dataclass(frozen=True, slots=True)
class Question:
    """What the caller asked for."""

    rule: str
    within: str
    m: int
    """Most rows to keep of each group."""
    token_budget: int | None
    """Most tokens to keep of all groups together; None for no limit."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is kept."""

    kept: tuple[tuple[int, ...], ...]
    """Positions kept in each pool, ascending; none where the pool is flat."""
    method: str
    """How it was found."""
    upper_bound: float
    """No choice that was allowed has a larger Q."""
    price: float = 0.0
    """Squared reward a token must bring; 0 where the budget does not bind."""


def solve(pools: Sequence[Pool], question: Question) -> Choice:
    """The rule's choice in each pool."""
    orders = WITHIN[question.within]
    if question.token_budget is None:
        return _unbudgeted(pools, question, orders[0])
    return _budgeted(pools, question, orders, question.token_budget)


def _unbudgeted(pools: Sequence[Pool], question: Question, order: Order) -> Choice:
    """Groups do not compete: each keeps its own m."""
    rule = RULES[question.rule]
    kept = [
        () if is_flat(pool.rewards) else tuple(sorted(rule(pool, question.m, order(pool))))
        for pool in pools
    ]
    found = _total_q(pools, kept)
    bound = found if question.rule == OPTIMAL else max(found, _optimum(pools, question.m))
    method = "two-ended growth" if question.rule == OPTIMAL else question.rule
    return Choice(tuple(kept), method, bound)


def _budgeted(
    pools: Sequence[Pool], question: Question, orders: Sequence[Order], budget: int
) -> Choice:
    """The choice that the rule makes without a budget, where it fits.

    The cheapest order has the fewest tokens of all best choices, so if that one is
    refused, every one is.
    """
    needed = 0
    for order in orders:
        choice = _unbudgeted(pools, question, order)
        needed = sum(pool.cost(kept) for pool, kept in zip(pools, choice.kept, strict=True))
        if needed <= budget:
            optimal = question.rule == OPTIMAL
            method = "unbudgeted optimum fits" if optimal else choice.method
            return Choice(choice.kept, method, choice.upper_bound)
    raise UsageError(
        f"--token-budget {budget}: rule {question.rule} keeps {needed} tokens without a budget, "
        f"{needed - budget} too many. A budget that binds is not available yet. "
        f"Give at least {needed}, a smaller m, or no budget."
    )


def _optimum(pools: Sequence[Pool], m: int) -> float:
    """The largest Q that m rows of each group can have."""
    return _total_q(pools, [max_variance(pool, m, range(len(pool.rows))) for pool in pools])


def _total_q(pools: Sequence[Pool], kept: Sequence[Sequence[int]]) -> float:
    return sum(q(pool.rewards_of(some)) for pool, some in zip(pools, kept, strict=True))
