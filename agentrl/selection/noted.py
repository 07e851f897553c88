"""Noted: what was asked of a group and could not be done, and why a group got nothing.

In    a problem, what was found, and the rows that stand for it
Out   texts for a person, by group
Not   groups without contrast: reported.py has their reason
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrl.selection.ladder import by_cost, ladder
from agentrl.selection.objective import is_flat
from agentrl.selection.problem import Outcome, Problem
from agentrl.selection.realised import Rows
from agentrl.selection.rounding import pair
from agentrl.selection.within import WITHIN

FALLBACK = "drawn rows may not fit: the cheapest were kept, weights 1"
"""What a way that draws says where it did not."""


def noted(
    problem: Problem, outcome: Outcome, rows: Sequence[Rows], *, fallback: bool
) -> dict[int, str]:
    """What could not be done, by place among the problem's pools."""
    notes = {}
    for place, (kept, _) in enumerate(rows):
        why = [outcome.notes.get(place, "")]
        if not kept.size:
            why.append(_why(problem, outcome, place))
        elif fallback:
            why.append(FALLBACK)
        elif problem.drawn:
            why += _chanceless(problem, place)
        if any(why):
            notes[place] = "; ".join(filter(None, why))
    return notes


def unmet(problem: Problem) -> str:
    """A floor that was dropped; nothing where none was asked for or m allows none."""
    question = problem.question
    asked = [f"{question.floor} rows"] if question.floor else []
    asked += [f"{question.floor_tokens} tokens"] if question.floor_tokens else []
    if not asked or question.most(2) < 2:
        return ""
    return f"floor of {' and '.join(asked)} dropped: it does not fit"


def alike(problem: Problem, place: int) -> bool:
    """Whether all rewards that fit together differ by rounding only."""
    pool, offer = problem.pools[place], problem.offers[place]
    if not problem.question.padded:
        offer = ladder(pool, problem.cap, problem.scale, by_cost)
    two = pair(offer, problem.cap)
    return two is None or is_flat(pool.rewards[offer.taken(two)])


def no_contrast(problem: Problem) -> str:
    """Why such a group gets nothing, and the floor that goes with it."""
    why = f"no two rewards that differ by more than rounding fit {problem.cap} tokens"
    return "; ".join(filter(None, (unmet(problem), why)))


def _chanceless(problem: Problem, place: int) -> list[str]:
    """Rows that no draw can take, where weights stand for those that it can."""
    question = problem.question
    if not question.unbiased and WITHIN[question.within].size is None:
        return []
    rows = int(np.count_nonzero(problem.pools[place].costs > problem.cap))
    if not rows:
        return []
    whom = "1 row costs" if rows == 1 else f"{rows} rows cost"
    has = "has" if rows == 1 else "have"
    tail = ": the gradient is that of the others" if question.unbiased else ""
    return [f"{whom} more than {problem.cap} tokens and {has} no chance{tail}"]


def _why(problem: Problem, outcome: Outcome, place: int) -> str:
    """Why a group with contrast got nothing."""
    question = problem.question
    if question.most(2) < 2:
        return "m is 1: one row alone has no contrast"
    if question.unbiased:
        return "a draw from both sides of the mean does not fit"
    if outcome.choices[place].any():
        return "the rewards that its tokens were to bring differ by rounding only"
    competes = question.token_budget is not None and len(problem.pools) > 1
    if competes and pair(problem.offers[place], problem.cap) is not None:
        return "its tokens bring more in other groups"
    what = "draw of two different rewards fits" if problem.drawn else "two different rewards fit"
    return f"no {what} {problem.cap} tokens"
