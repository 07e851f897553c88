"""Why a trajectory was kept: value, margin, and the sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.selection import select
from agentrl.selection.objective import is_flat, q
from agentrl.view.why import Terms, whys


def best_other(rewards, costs, kept, row, price, m):
    """What the best other decision about a row gains, by trying each of them."""

    def worth(rows):
        chosen = [rewards[i] for i in rows]
        return q(chosen) - price * sum(costs[i] for i in rows) if chosen else 0.0

    now = {i for i, keep in enumerate(kept) if keep}
    others = [i for i in range(len(rewards)) if kept[i] != kept[row] and rewards[i] != rewards[row]]
    if kept[row]:
        changed = [now - {row}, *((now - {row}) | {i} for i in others)]
    else:
        changed = [(now - {i}) | {row} for i in others]
        changed += [now | {row}] if len(now) < m else []
    return max((worth(rows) - worth(now) for rows in changed), default=None)


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([-1.0, 0.0, 0.25, 1.0, 3.0]), st.integers(1, 50), st.booleans()),
        min_size=2,
        max_size=9,
    ),
    price=st.sampled_from([0.0, 0.01, 0.3]),
    room=st.integers(0, 2),
)
def test_value_and_margin_are_what_trying_every_other_decision_gives(rows, price, room):
    rewards, costs, kept = map(list, zip(*rows, strict=True))
    if not any(kept):
        kept[0] = True
    m = sum(kept) + room
    found = whys(rewards, costs, kept, {}, Terms(m=m, price=price))
    for i, why in enumerate(found):
        others = [r for j, r in enumerate(rewards) if kept[j] and j != i]
        assert why.value == pytest.approx(
            q([*others, rewards[i]]) - (q(others) if others else 0.0), abs=1e-9
        )
        assert why.cost == pytest.approx(price * costs[i])
        gain = best_other(rewards, costs, kept, i, price, m)
        if gain is None:
            assert why.margin is None
        else:
            assert (-why.margin if kept[i] else why.margin) == pytest.approx(gain, abs=1e-9)


@given(
    rewards=st.lists(st.floats(-5, 5).map(lambda x: round(x, 2)), min_size=3, max_size=12),
    m=st.integers(2, 6),
)
def test_without_a_budget_no_decision_of_the_largest_spread_could_have_been_better(rewards, m):
    if is_flat(rewards):
        return
    found = select(rewards, [1] * len(rewards), m=m)
    kept = [i in found.indices for i in range(len(rewards))]
    for keep, why in zip(
        kept, whys(rewards, [1] * len(rewards), kept, {}, Terms(m=m)), strict=True
    ):
        assert why.margin is None or (why.margin if keep else -why.margin) >= -1e-9


def said(rewards, kept, costs=None, out=None, note="", **terms):
    costs = costs or [10] * len(rewards)
    return [w.said for w in whys(rewards, costs, kept, out or {}, Terms(m=2, **terms), note)]


def test_each_decision_is_told_in_a_sentence():
    one, two, three = said([0.0, 0.5, 1.0], [True, False, True])
    assert one.startswith("Kept: reward 0 lies 0.5 below the mean of the 2 kept.")
    assert two == (
        "Not kept: reward 0.5 lies at the mean of the 2 kept. "
        "In the best exchange for a kept one, Q would fall by 0.375."
    )
    assert three.endswith("With the best other one instead, Q would fall by 0.375.")


def test_what_costs_more_than_it_brings_is_told_to_be_paid_from_what_is_left():
    dear = said([0.0, 1.0, 1.0], [True, True, True], [10, 10, 90], price=0.01)
    assert "would rise by" in dear[2]
    assert dear[2].endswith(
        "A budget is spent in whole trajectories, so some cost more than they bring."
    )
    assert "whole trajectories" not in dear[0]


def test_equal_rewards_are_told_apart_by_a_lot_or_by_length():
    by_lot = said([0.0, 1.0, 1.0], [True, True, False])
    assert by_lot[2].endswith("Of 2 with this reward 1 is kept; a lot decided which.")
    by_length = said([0.0, 1.0, 1.0], [True, True, False], drawn=False)
    assert by_length[2].endswith("the cheapest are taken.")


def test_nothing_to_tell_apart_nothing_affordable_and_nothing_usable_have_words_of_their_own():
    flat = said([1.0, 1.0], [False, False])
    assert all("all rewards of this task are alike" in text for text in flat)
    (alone,) = said([1.0], [False])
    assert "no other trajectory" in alone
    dear = said([0.0, 1.0], [False, False], [400, 500], price=0.01, left=30)
    assert "has 900 tokens, which cost 9. The budget has 30 left" in dear[0]
    out = said([0.0, 1.0, None], [True, True, False], out={1: "too long."})
    assert out[1:] == [
        "Left out before the choice: too long.",
        "Left out before the choice: it has no reward.",
    ]


def test_other_rules_are_told_by_what_they_go_by():
    text = said([0.0, 0.5, 1.0], [False, True, True], rule="max_reward")[0]
    assert text == "Not kept. Rule max_reward keeps the 2 highest rewards."
