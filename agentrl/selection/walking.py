"""Walking: how a rule that knows no tokens keeps to a budget.

In    pools, a question, and a rule's order of each pool
Out   positions: the first, second, ... of every group in turn, where they still fit
Not   a good choice: this is what comparisons are made with

A row that does not fit is passed over, and the next of its group is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from agentrl.selection.pool import Pool
from agentrl.selection.question import Question
from agentrl.selection.rules import RULES, Order


def walked(pools: Sequence[Pool], question: Question, order: Order) -> list[list[int]]:
    """Rows in the rule's order while they fit."""
    most = [question.most(len(pool)) for pool in pools]
    turns = _turns(pools, question)
    kept: list[list[int]] = [[] for _ in pools]
    spent, longest, left = [0] * len(pools), [0] * len(pools), question.token_budget
    cap = question.cap_tokens
    for rank in zip_longest(*(_order(pools[place], question, order) for place in turns)):
        for place, position in zip(turns, rank, strict=True):
            if position is None or len(kept[place]) >= most[place]:
                continue
            cost = int(pools[place].costs[position])
            top = max(longest[place], cost)
            total = top * (len(kept[place]) + 1) if question.padded else spent[place] + cost
            extra = total - spent[place]
            if (left is None or extra <= left) and (cap is None or total <= cap):
                kept[place].append(position)
                left = None if left is None else left - extra
                spent[place], longest[place] = total, top
    return kept


def _turns(pools: Sequence[Pool], question: Question) -> Sequence[int]:
    """Places of the pools: as they came for rule `first`, else as their content says."""
    places = range(len(pools))
    if question.rule == "first":
        return places
    return sorted(places, key=lambda place: pools[place].key[::-1])


def _order(pool: Pool, question: Question, order: Order) -> Sequence[int]:
    """All rows, or for percentiles the m rows themselves from the ends inwards."""
    if pool.flat:
        return []
    if question.rule == "percentile":
        return _inwards(RULES["percentile"](pool, question.most(len(pool)), order(pool)))
    return RULES[question.rule](pool, len(pool), order(pool))


def _inwards(ranked: Sequence[int]) -> list[int]:
    """Last, first, last but one, second, ..."""
    half = zip_longest(reversed(ranked), ranked)
    pairs = [position for pair in half for position in pair if position is not None]
    return list(dict.fromkeys(pairs))
