"""Groups → Selection: which trajectories the update sees (PODS).

In    rewards and tokens, one each a row, and which rows form a group
Out   the rows to train on, their weights, and a report
Not   advantages (advantage.py) or any tensor: this package never imports torch
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.errors import UsageError, suggestion
from agentrl.selection.objective import TIE, q
from agentrl.selection.pool import Pool, read
from agentrl.selection.question import OPTIMAL, Choice, Question
from agentrl.selection.report import GroupReport, Report, Selection
from agentrl.selection.rules import RULES
from agentrl.selection.solving import solve
from agentrl.selection.within import WITHIN


def select(
    rewards: Iterable[float | None],
    tokens: Iterable[int],
    *,
    m: int,
    token_budget: int | None = None,
    groups: Iterable[Hashable] | None = None,
    valid: Iterable[bool] | None = None,
    rule: str = "max_variance",
    within: str = "auto",
    seed: int = 0,
    floor: int = 0,
    cap: int | None = None,
    floor_tokens: int = 0,
    cap_tokens: int | None = None,
    costs: Iterable[int] | None = None,
    padded: bool = False,
    unbiased: bool = False,
) -> Selection:
    """Keep the m trajectories of each group that carry the most contrast.

    Rows that are invalid, or whose reward is None or not finite, are out before
    anything is compared. Groups without contrast keep nothing, whatever the rule.

    Under a budget rule max_variance keeps the largest Q of all groups together, and the
    report says how far that can be from the best. Any other rule takes rows in its own
    order, the first of every group, then the second, and passes over those that do not fit.

    Args:
        rewards: One a row; None where there is no score.
        tokens: Tokens forwarded to train on the row: prompt and observations included.
        m: Most rows to keep of each group.
        token_budget: Most tokens to keep of all groups together.
        groups: A hashable label a row; without labels all rows are one group, called 0.
        valid: Whether a row's reward may be compared with its group's.
        rule: max_variance, all, random, max_reward, first or percentile.
        within: Which of equal rewards are kept: random, cheapest, ht (drawn, shorter ones
            more often, with weights that undo it), or auto, which is random where no
            budget binds and cheapest where one does.
        seed: Seed of everything that is drawn.
        floor: Fewest rows to keep of a group with contrast, different rewards among them.
            A floor that does not fit is dropped, and its group's note says so.
        cap: Most rows to keep of a group, where that is less than m.
        floor_tokens: A group with contrast keeps at least the Q that so many tokens of
            its own would bring it.
        cap_tokens: Most tokens to keep of a group.
        costs: What a row counts against budget, floor and cap, where that is not its tokens:
            effective tokens, or the sum over the branches of a trajectory.
        padded: Whether every kept row of a group costs as much as the longest.
        unbiased: Whether every row gets a chance, and a weight that undoes it: with
            advantages of the full group the gradient is that of all rows, on average.
    """
    most = _whole(m, "m", 1)
    question = Question(
        rule=_known(rule, "rule", RULES),
        within=_known(within, "within", WITHIN),
        m=most if cap is None else min(most, _whole(cap, "cap", 1)),
        token_budget=None if token_budget is None else _whole(token_budget, "token_budget", 1),
        floor=_whole(floor, "floor", 0),
        floor_tokens=_whole(floor_tokens, "floor_tokens", 0),
        cap_tokens=None if cap_tokens is None else _whole(cap_tokens, "cap_tokens", 1),
        padded=padded,
        unbiased=unbiased,
    )
    _check(question)
    pools, excluded = read(rewards, tokens, groups, valid, _whole(seed, "seed", 0), costs)
    choice = solve(pools, question)
    report = _report(question, pools, choice, excluded)
    rows = [pool.rows[list(some)] for pool, some in zip(pools, choice.kept, strict=True)]
    indices = np.concatenate([np.zeros(0, np.int64), *rows])
    order = np.argsort(indices)
    weights: tuple[float, ...] = (1.0,) * indices.size
    if choice.weights:
        weights = tuple(np.concatenate(choice.weights)[order].tolist())
    return Selection(tuple(indices[order].tolist()), weights, report)


def _check(question: Question) -> None:
    """Refuse what cannot be done together."""
    most, tokens = question.m, question.cap_tokens
    if question.floor > most:
        raise UsageError(f"floor: {question.floor} rows are more than the {most} that may be kept.")
    if tokens is not None and question.floor_tokens > tokens:
        raise UsageError(
            f"floor_tokens: {question.floor_tokens} are more than cap_tokens {tokens}."
        )
    asked = [name for name in ("floor", "floor_tokens", "unbiased") if getattr(question, name)]
    asked += ["within"] * (question.within == "ht")
    if asked and question.rule != OPTIMAL:
        raise UsageError(f"{asked[0]}: rule {question.rule} has none. Use rule {OPTIMAL}.")
    if question.padded and (question.unbiased or question.within == "ht"):
        raise UsageError("padded: rows drawn by chance have no longest one. Leave one of them out.")
    if question.unbiased and WITHIN[question.within].unbiased is None:
        raise UsageError(f"unbiased: within {question.within} gives some rows no chance. Use auto.")
    if question.unbiased and most < 2:
        raise UsageError(
            "unbiased: m is 1. Rows on both sides of the mean are needed: m 2 or more."
        )


def _report(
    question: Question, pools: Sequence[Pool], choice: Choice, excluded: Mapping[int, str]
) -> Report:
    """Everything about the choice that a person or a file may want."""
    groups = {
        pool.label: _group_report(pool, list(kept), choice.notes.get(place, ""))
        for place, (pool, kept) in enumerate(zip(pools, choice.kept, strict=True))
    }
    parts = list(groups.values())
    q_kept = sum(part.q_kept for part in parts)
    # Sums in another order round differently: that is no gap.
    bound = q_kept if choice.upper_bound <= q_kept * (1 + 4 * TIE) else choice.upper_bound
    return Report(
        rule=question.rule,
        method=choice.method,
        q_kept=q_kept,
        q_all=sum(part.q_all for part in parts),
        upper_bound=bound,
        gap=1 - q_kept / bound if bound > 0 else 0.0,
        price=choice.price,
        tokens_kept=sum(part.tokens_kept for part in parts),
        tokens_all=sum(part.tokens_all for part in parts),
        cost_kept=sum(
            question.cost(pool.costs[list(kept)])
            for pool, kept in zip(pools, choice.kept, strict=True)
        ),
        length_ratio=_length_ratio(pools, choice),
        kept=sum(len(part.kept) for part in parts),
        of=sum(part.of for part in parts),
        excluded=excluded,
        groups=groups,
    )


def _group_report(pool: Pool, kept: list[int], note: str) -> GroupReport:
    """One group's part."""
    every, some = q(pool.rewards), q(pool.rewards[kept])
    return GroupReport(
        kept=tuple(sorted(pool.rows[kept].tolist())),
        of=pool.of,
        valid=len(pool),
        flat=pool.flat,
        dropped="" if kept else note or _why_dropped(pool),
        spread_all=every / max(len(pool), 1),
        spread_kept=some / max(len(kept), 1),
        q_all=every,
        q_kept=some,
        tokens_all=int(pool.tokens.sum()),
        tokens_kept=int(pool.tokens[kept].sum()),
        note=note if kept else "",
    )


def _why_dropped(pool: Pool) -> str:
    """The reason for a person."""
    return (
        f"{len(pool)} usable of {pool.of}: 2 are needed" if len(pool) < 2 else "flat: equal rewards"
    )


def _length_ratio(pools: Sequence[Pool], choice: Choice) -> float:
    """Tokens of the kept rows over those of average rows of equal reward in their groups."""
    kept = like = 0.0
    for pool, some in zip(pools, choice.kept, strict=True):
        if some:
            level = np.concatenate(([0], np.cumsum(np.diff(pool.rewards) != 0)))
            average = np.bincount(level, pool.tokens) / np.bincount(level)
            kept += float(pool.tokens[list(some)].sum())
            like += float(average[level[list(some)]].sum())
    return kept / like if like else 1.0


def _known(name: Any, where: str, table: Mapping[str, object]) -> str:
    """A name that the table has."""
    if isinstance(name, str) and name in table:
        return name
    hint = suggestion(str(name), table, f"Known: {', '.join(table)}.")
    raise UsageError(f"{where}: {reprlib.repr(name)} is not one. {hint}")


def _whole(value: Any, where: str, least: int) -> int:
    """A whole number that is not too small."""
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if count < least:
        raise UsageError(
            f"{where}: {reprlib.repr(value)} is not a whole number of at least {least}."
        )
    return count
