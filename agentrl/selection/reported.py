"""Reported: the report on a choice.

In    a question, pools, what was kept of each, and why other rows are out
Out   everything that a person or a file may want to know
Not   the records themselves: report.py has those
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentrl.selection.objective import TIE, Ints, ascending_q
from agentrl.selection.pool import Pool
from agentrl.selection.question import Choice, Question
from agentrl.selection.report import GroupReport, Report


def reported(
    question: Question, pools: Sequence[Pool], choice: Choice, excluded: Mapping[int, str]
) -> Report:
    """Everything about the choice that a person or a file may want."""
    groups = {
        pool.label: _group_report(pool, kept, choice.notes.get(place, ""))
        for place, (pool, kept) in enumerate(zip(pools, choice.kept, strict=True))
    }
    parts = list(groups.values())
    tokens_kept = sum(part.tokens_kept for part in parts)
    q_kept = sum(part.q_kept for part in parts)
    # Sums in another order round differently: that is no gap.
    near, bound = q_kept * (1 + 4 * TIE), choice.upper_bound
    bound = q_kept if bound is None or bound <= near else bound
    return Report(
        rule=question.rule,
        method=choice.method,
        q_kept=q_kept,
        q_all=sum(part.q_all for part in parts),
        upper_bound=bound,
        gap=1 - q_kept / bound if bound > 0 else 0.0,
        price=choice.price,
        tokens_kept=tokens_kept,
        tokens_all=sum(part.tokens_all for part in parts),
        cost_kept=sum(
            question.cost(pool.costs[kept]) for pool, kept in zip(pools, choice.kept, strict=True)
        ),
        length_ratio=_length_ratio(pools, choice, tokens_kept),
        kept=sum(len(part.kept) for part in parts),
        of=sum(part.of for part in parts),
        excluded=excluded,
        groups=groups,
    )


def _group_report(pool: Pool, kept: Ints, note: str) -> GroupReport:
    """One group's part."""
    every, some = ascending_q(pool.rewards), ascending_q(pool.rewards[np.sort(kept)])
    return GroupReport(
        kept=tuple(np.sort(pool.rows[kept]).tolist()),
        of=pool.of,
        valid=len(pool),
        flat=pool.flat,
        dropped="" if kept.size else note or _why_dropped(pool),
        spread_all=every / max(len(pool), 1),
        spread_kept=some / max(kept.size, 1),
        q_all=every,
        q_kept=some,
        tokens_all=int(pool.tokens.sum()),
        tokens_kept=int(pool.tokens[kept].sum()),
        note=note if kept.size else "",
    )


def _why_dropped(pool: Pool) -> str:
    """The reason for a person."""
    return (
        f"{len(pool)} usable of {pool.of}: 2 are needed" if len(pool) < 2 else "flat: equal rewards"
    )


def _length_ratio(pools: Sequence[Pool], choice: Choice, tokens: int) -> float:
    """Tokens of the kept rows over those of average rows of equal reward in their groups."""
    average = sum(
        float(pool.averages[kept].sum()) for pool, kept in zip(pools, choice.kept, strict=True)
    )
    return tokens / average if average else 1.0
