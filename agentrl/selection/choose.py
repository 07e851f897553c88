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

from agentrl.errors import UsageError, suggestion
from agentrl.selection.objective import is_flat, q, spread
from agentrl.selection.pool import Pool, read
from agentrl.selection.report import GroupReport, Report, Selection
from agentrl.selection.rules import RULES, WITHIN
from agentrl.selection.solving import Choice, Question, solve


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
) -> Selection:
    """Keep the m trajectories of each group that carry the most contrast.

    Rows that are invalid, or whose reward is None or not finite, are out before
    anything is compared. Groups without contrast keep nothing, whatever the rule.

    Args:
        rewards: One a row; None where there is no score.
        tokens: Tokens forwarded to train on the row: prompt and observations included.
        m: Most rows to keep of each group.
        token_budget: Most tokens to keep of all groups together.
        groups: A hashable label a row; without labels all rows are one group, called 0.
        valid: Whether a row's reward may be compared with its group's.
        rule: max_variance, all, random, max_reward, first or percentile.
        within: Which of equal rewards are kept: random, cheapest, or auto, which is
            random where no budget binds.
        seed: Seed of everything that is drawn.
    """
    question = Question(
        rule=_known(rule, "rule", RULES),
        within=_known(within, "within", WITHIN),
        m=_whole(m, "m", 1),
        token_budget=None if token_budget is None else _whole(token_budget, "token_budget", 1),
    )
    pools, excluded = read(rewards, tokens, groups, valid, _whole(seed, "seed", 0))
    choice = solve(pools, question)
    report = _report(question, pools, choice, excluded)
    indices = tuple(sorted(row for group in report.groups.values() for row in group.kept))
    return Selection(indices, (1.0,) * len(indices), report)


def _report(
    question: Question, pools: Sequence[Pool], choice: Choice, excluded: Mapping[int, str]
) -> Report:
    """Everything about the choice that a person or a file may want."""
    groups = {
        pool.label: _group_report(pool, kept) for pool, kept in zip(pools, choice.kept, strict=True)
    }
    parts = list(groups.values())
    q_kept, bound = sum(part.q_kept for part in parts), choice.upper_bound
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
        kept=sum(len(part.kept) for part in parts),
        of=sum(part.of for part in parts),
        excluded=excluded,
        groups=groups,
    )


def _group_report(pool: Pool, kept: Sequence[int]) -> GroupReport:
    """One group's part."""
    chosen = pool.rewards_of(kept)
    return GroupReport(
        kept=tuple(pool.rows[position] for position in kept),
        of=pool.of,
        valid=len(pool.rows),
        flat=is_flat(pool.rewards),
        dropped="" if kept else _why_dropped(pool),
        spread_all=spread(pool.rewards),
        spread_kept=spread(chosen),
        q_all=q(pool.rewards),
        q_kept=q(chosen),
        tokens_all=sum(pool.tokens),
        tokens_kept=pool.cost(kept),
    )


def _why_dropped(pool: Pool) -> str:
    """The reason for a person."""
    count = len(pool.rows)
    return f"{count} usable of {pool.of}: 2 are needed" if count < 2 else "flat: equal rewards"


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
