"""Groups → Selection: which trajectories the update sees (PODS).

In    rewards and tokens, one each a row, and which rows form a group
Out   the rows to train on, their weights, and a report
Not   advantages (advantage.py) or any tensor: this package never imports torch
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from agentrl.selection.pool import Pool, read
from agentrl.selection.question import Choice, asked, whole
from agentrl.selection.report import Selection
from agentrl.selection.reported import reported
from agentrl.selection.solving import solve


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
        m: Most rows to keep of each group; rule all knows none.
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
        cap: Most rows to keep of a group, where that is less than m; rule all keeps to it too.
        floor_tokens: A group with contrast keeps at least the Q that so many tokens of
            its own would bring it.
        cap_tokens: Most tokens to keep of a group.
        costs: What a row counts against budget, floor and cap, where that is not its tokens:
            effective tokens, or the sum over the branches of a trajectory.
        padded: Whether every kept row of a group costs as much as the longest.
        unbiased: Whether every row gets a chance, and a weight that undoes it: with
            advantages of the full group the gradient is that of all rows, on average.
    """
    question = asked(
        m, token_budget, rule, within, floor, cap, floor_tokens, cap_tokens, padded, unbiased
    )
    pools, excluded = read(rewards, tokens, groups, valid, whole(seed, "seed", 0), costs)
    choice = solve(pools, question)
    indices, weights = _rows(pools, choice)
    return Selection(indices, weights, reported(question, pools, choice, excluded))


def _rows(pools: Sequence[Pool], choice: Choice) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Kept rows of all groups, ascending, and the weight of each."""
    rows = [pool.rows[some] for pool, some in zip(pools, choice.kept, strict=True)]
    indices = np.concatenate([np.zeros(0, np.int64), *rows])
    order = np.argsort(indices)
    weights: tuple[float, ...] = (1.0,) * indices.size
    if choice.weights:
        weights = tuple(np.concatenate(choice.weights)[order].tolist())
    return tuple(indices[order].tolist()), weights
