import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.selection import batch, bidder, select
from agentrl.selection.found import Quota
from agentrl.selection.ladder import by_cost, ladder, scale_of
from agentrl.selection.pool import read
from agentrl.selection.rules import RULES
from agentrl.selection.trades import trades
from tests.brute import best

FAMILIES = {
    "binary": lambda draw: float(draw.random() < 0.5),
    "three levels": lambda draw: draw.choice([0.0, 0.5, 1.0]),
    "many levels": lambda draw: draw.randrange(21) / 20,
    "gaussian": lambda draw: draw.gauss(0, 1),
    "large offset": lambda draw: 1e9 + draw.random(),
    "tiny differences": lambda draw: 0.5 + 1e-13 * draw.randrange(9),
}
COSTS = {
    "lognormal": lambda draw: 1 + int(50 * draw.lognormvariate(0, 0.7)),
    "few, some free": lambda draw: draw.randrange(4),
    "equal": lambda draw: 7,
    "one huge": lambda draw: draw.choice([5, 8, 20, 10**12]),
}


def instance(draw, family, kind, groups, most):
    """Rows of some groups, side by side, and a budget."""
    rows = [
        (label, FAMILIES[family](draw), COSTS[kind](draw))
        for label in range(groups)
        for _ in range(draw.randrange(1, most + 1))
    ]
    whole = sum(min(cost, 10**4) for _, _, cost in rows)
    return rows, draw.randrange(2, most + 1), 1 + int(draw.choice((0.1, 0.25, 0.5, 0.8)) * whole)


def pick(rows, **options):
    labels, rewards, costs = zip(*rows, strict=True)
    return select(rewards, costs, groups=labels, **options)


def parts(rows):
    """Rewards and costs of each group."""
    labels = dict.fromkeys(label for label, _, _ in rows)
    return [
        ([r for g, r, _ in rows if g == label], [c for g, _, c in rows if g == label])
        for label in labels
    ]


def tokens_of(rows, group):
    return sum(rows[i][2] for i in group.kept)


# --- against all subsets of all groups


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_that_fits_has_a_larger_q_over_all_groups(family, kind):
    draw = random.Random(f"{family} {kind}")
    for _ in range(60):
        groups = draw.choice([2, 3])
        rows, m, budget = instance(draw, family, kind, groups, 6 if groups == 2 else 5)
        report = pick(rows, m=m, token_budget=budget).report
        assert report.cost_kept <= budget
        assert all(len(group.kept) <= m for group in report.groups.values())
        optimum = best(parts(rows), m=m, budget=budget)
        assert report.q_kept == pytest.approx(optimum, rel=1e-9)
        assert report.gap == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_that_fits_has_a_larger_q_in_thousands_of_batches(family, kind):
    draw = random.Random(f"slow {family} {kind}")
    for _ in range(1000):
        groups = draw.choice([2, 3])
        rows, m, budget = instance(draw, family, kind, groups, 8 if groups == 2 else 6)
        report = pick(rows, m=m, token_budget=budget).report
        optimum = best(parts(rows), m=m, budget=budget)
        assert report.cost_kept <= budget
        assert report.q_kept == pytest.approx(optimum, rel=1e-9)


def relaxed(offer, quota, cap):
    """A bidder whose trades are not listed, as those of large groups are not."""
    return bidder.Bidder(
        trades(offer, np.zeros((1, offer.values.size), dtype=np.int64)), offer, quota, cap
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_groups_that_are_relaxed_keep_to_the_budget_and_below_their_bound(family):
    draw = random.Random(f"relaxed {family}")
    ratios = []
    for _ in range(80):
        rows, m, budget = instance(draw, family, draw.choice(sorted(COSTS)), 3, 5)
        labels, rewards, costs = zip(*rows, strict=True)
        pools, _ = read(rewards, costs, labels, None, 0)
        pools = [pool for pool in pools if not pool.flat]
        if not pools:
            continue
        scale = scale_of(pools)
        bids = [relaxed(ladder(pool, budget, scale, by_cost), Quota(m), budget) for pool in pools]
        shared = batch.share(bids, budget)
        spent = [int(bid.offer.cost(some)) for bid, some in zip(bids, shared.choices, strict=True)]
        optimum = best(parts(rows), m=m, budget=budget) / scale**2
        assert sum(spent) <= budget
        assert all(some.sum() <= m for some in shared.choices)
        assert shared.worth <= optimum * (1 + 1e-9)
        assert shared.bound >= optimum * (1 - 1e-11)
        ratios += [shared.worth / optimum] if optimum > 0 else []
    assert sum(ratios) / len(ratios) > 0.97


@settings(max_examples=300)
@given(st.data(), st.integers(2, 5), st.integers(1, 150), st.integers(0, 4), st.booleans())
def test_floors_and_caps_of_groups_hold_and_q_is_the_largest_they_allow(
    data, m, budget, floor, padded
):
    row = st.tuples(
        st.sampled_from("ab"), st.sampled_from([0.0, 0.25, 1.0, 3.0]), st.integers(0, 20)
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=10))
    cap = data.draw(st.one_of(st.none(), st.integers(1, 100)))
    floor = min(floor, m)
    options = {"m": m, "floor": floor, "cap_tokens": cap, "padded": padded}
    report = pick(rows, token_budget=budget, **options).report
    honoured = {
        label: bool(floor) and not group.flat and not group.note and not group.dropped
        for label, group in report.groups.items()
    }
    for label, group in report.groups.items():
        spent = tokens_of(rows, group)
        if padded:
            spent = len(group.kept) * max((rows[i][2] for i in group.kept), default=0)
        assert len(group.kept) <= m
        assert cap is None or spent <= cap
        if honoured[label]:
            assert len(group.kept) >= min(max(floor, 2), group.valid)
    assert report.cost_kept <= budget
    if len(set(honoured.values())) == 1:
        least = floor if all(honoured.values()) else 0
        optimum = best(parts(rows), m=m, budget=budget, cap=cap, least=least, padded=padded)
        assert report.q_kept == pytest.approx(optimum, rel=1e-9)


def contents(rows, selection):
    """What was kept of groups of which content."""
    return Counter(
        (
            tuple(sorted(row[1:] for row in rows if row[0] == label)),
            tuple(sorted(rows[i][1:] for i in group.kept)),
        )
        for label, group in selection.report.groups.items()
    )


@settings(max_examples=200)
@given(st.data(), st.integers(2, 6), st.integers(1, 120), st.sampled_from(["auto", "random", "ht"]))
def test_a_permuted_batch_keeps_the_same_rows_up_to_equal_ones(data, m, budget, within):
    row = st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 9))
    rows = data.draw(st.lists(row, min_size=1, max_size=16))
    mixed = data.draw(st.permutations(rows))
    options = {"m": m, "token_budget": budget, "within": within}
    one, two = pick(rows, **options), pick(mixed, **options)
    assert one.report.q_kept == pytest.approx(two.report.q_kept)
    assert one.report.tokens_kept == two.report.tokens_kept
    # Of groups with equal content any may be the one that gets more.
    assert contents(rows, one) == contents(mixed, two)
    assert one.report.price == pytest.approx(two.report.price)


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([0.0, 0.5, 1.0, None]),
        st.integers(0, 4),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=16,
)
WAYS = [
    {"rule": rule, "within": within, **limits}
    for rule in RULES
    for within in ("auto", "random", "cheapest")
    for limits in ({}, {"padded": True})
    if rule != "first"
]
WAYS += [{"within": "ht"}, {"unbiased": True}, {"unbiased": True, "within": "ht"}]
WAYS += [{"floor": 2, "within": within} for within in ("auto", "random", "cheapest", "ht")]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(map(str, way.values())))
@settings(max_examples=40)
@given(data=st.data(), rows=ROWS, m=st.integers(2, 6), seed=st.integers(0, 3))
def test_rows_and_groups_in_another_order_keep_the_same_content(way, data, rows, m, seed):
    options = {"m": m, "seed": seed, **way}
    options["token_budget"] = data.draw(st.one_of(st.none(), st.integers(1, 40)))
    options["cap"] = data.draw(st.sampled_from([None, 2, 3]))
    options["cap_tokens"] = data.draw(st.sampled_from([None, None, 9]))
    kinds = []
    for some in (rows, data.draw(st.permutations(rows))):
        labels, rewards, tokens, costs = zip(*some, strict=True)
        done = select(rewards, tokens, groups=labels, costs=costs, **options)
        weighed = dict(zip(done.indices, done.weights, strict=True))
        kinds.append(
            Counter(
                (
                    tuple(
                        sorted(row[1:] for row in some if row[0] == label and row[1] is not None)
                    ),
                    tuple(sorted((*some[i][1:], round(weighed[i], 9)) for i in group.kept)),
                )
                for label, group in done.report.groups.items()
            )
        )
    assert kinds[0] == kinds[1]


# --- one price


def realistic(draw, groups=32, n=16):
    rows = []
    for label in range(groups):
        chance = draw.betavariate(0.5, 0.5)
        for _ in range(n):
            good = draw.random() < chance
            length = 300 * draw.lognormvariate(0, 0.7) * (1.0 if good else 1.4)
            rows.append((label, float(good), 1 + int(length)))
    return rows


def test_a_group_that_brings_little_for_its_tokens_gives_way_to_one_that_brings_more():
    rows = [("long", r, 100) for r in (0.0, 1.0)] + [("short", r, 10) for r in (0.0, 1.0) * 5]
    groups = pick(rows, m=10, token_budget=250).report.groups
    assert len(groups["short"].kept) == 10
    assert groups["long"].kept == ()
    assert groups["long"].dropped == "its tokens bring more in other groups"


def test_one_price_beats_equal_shares():
    draw = random.Random(3)
    rows = realistic(draw)
    whole = sum(cost for _, _, cost in rows)
    for share, ratio in ((0.1, 1.25), (0.25, 1.2), (0.5, 1.1)):
        budget = int(share * whole)
        together = pick(rows, m=16, token_budget=budget).report
        apart = [
            select(rewards, costs, m=16, token_budget=budget // 32).report.q_kept
            for rewards, costs in parts(rows)
        ]
        assert together.gap == 0.0
        assert together.cost_kept <= budget
        assert together.q_kept > ratio * sum(apart)


def test_no_group_could_change_its_tokens_for_more_q_at_the_price():
    draw = random.Random(4)
    rows = realistic(draw)
    budget = sum(cost for _, _, cost in rows) // 5
    report = pick(rows, m=16, token_budget=budget).report
    wasted = 0.0
    for (rewards, costs), group in zip(parts(rows), report.groups.values(), strict=True):
        (pool,), _ = read(rewards, costs, None, None, 0)
        if pool.flat:
            continue
        menu = bidder.bidder(ladder(pool, budget, 1.0, by_cost), Quota(16), budget).menu
        most = (menu.worth - report.price * menu.cost).max()
        wasted += most - (group.q_kept - report.price * group.tokens_kept)
    assert wasted < 0.005 * report.q_kept


def test_the_gap_to_the_bound_of_one_price_is_small():
    draw = random.Random(6)
    for family in ("binary", "three levels", "many levels", "gaussian"):
        rows = [
            (label, FAMILIES[family](draw), COSTS["lognormal"](draw))
            for label in range(24)
            for _ in range(16)
        ]
        labels, rewards, costs = zip(*rows, strict=True)
        pools, _ = read(rewards, costs, labels, None, 0)
        active = [pool for pool in pools if not pool.flat]
        budget, scale = sum(costs) // 4, scale_of(active)
        bids = [
            bidder.bidder(ladder(pool, budget, scale, by_cost), Quota(16), budget)
            for pool in active
        ]
        shared = batch.share(bids, budget)
        assert shared.worth <= shared.bound <= shared.hull * (1 + 1e-12)
        assert 1 - shared.worth / shared.hull < 0.005


def test_a_single_group_with_spread_is_solved_alone():
    rows = [("flat", 1.0, 5)] * 4 + [("a", float(i % 2), 10 + i) for i in range(6)]
    report = pick(rows, m=6, token_budget=45).report
    assert report.method == "two rewards: exact"
    assert report.groups["flat"].kept == ()
    assert report.groups["flat"].dropped == "flat: equal rewards"


# --- floors and caps


def test_a_floor_of_rows_keeps_groups_that_one_price_would_leave_out():
    rows = [("long", r, 100) for r in (0.0, 1.0)] + [("short", r, 10) for r in (0.0, 1.0) * 5]
    report = pick(rows, m=10, token_budget=250, floor=2).report
    assert len(report.groups["long"].kept) == 2
    assert len(report.groups["short"].kept) == 5
    assert report.gap == 0.0


def test_floors_that_do_not_fit_together_are_dropped_from_the_dearest():
    rows = [("a", r, 10) for r in (0, 1)] + [("b", r, 30) for r in (0, 1)]
    rows += [("c", r, 50) for r in (0, 1)]
    report = pick(rows, m=2, token_budget=90, floor=2).report
    assert [len(group.kept) for group in report.groups.values()] == [2, 2, 0]
    assert report.groups["c"].dropped.startswith("floor of 2 rows dropped: it does not fit")
    assert report.groups["a"].note == report.groups["b"].note == ""


def test_a_floor_of_tokens_owes_every_group_what_a_quota_of_its_own_would_bring():
    draw = random.Random(9)
    for family in ("binary", "many levels", "gaussian"):
        rows = [
            (label, FAMILIES[family](draw) / (1 + label), COSTS["lognormal"](draw))
            for label in range(6)
            for _ in range(14)
        ]
        quota, budget = 200, 1600
        free = pick(rows, m=8, token_budget=budget).report
        report = pick(rows, m=8, token_budget=budget, floor_tokens=quota).report
        alone = [
            select(rewards, costs, m=8, token_budget=quota).report.q_kept
            for rewards, costs in parts(rows)
        ]
        got = [group.q_kept for group in report.groups.values()]
        assert all(have >= owed * (1 - 1e-9) for have, owed in zip(got, alone, strict=True))
        assert report.cost_kept <= budget
        assert report.q_kept <= free.upper_bound * (1 + 1e-12)


def test_a_cap_of_tokens_spreads_a_batch():
    rows = [(label, float(i % 2), 10) for label in "ab" for i in range(20)]
    rows += [("c", float(i % 2), 100) for i in range(4)]
    report = pick(rows, m=20, token_budget=400, cap_tokens=150).report
    assert all(tokens_of(rows, group) <= 150 for group in report.groups.values())
    assert report.gap == 0.0


def test_a_cap_without_a_budget_limits_each_group_alone():
    rows = [(label, float(i % 2), 10 + i) for label in "ab" for i in range(8)]
    report = pick(rows, m=8, cap_tokens=60).report
    assert all(0 < tokens_of(rows, group) <= 60 for group in report.groups.values())
    assert report.price == 0.0
    assert report.gap == 0.0


def test_large_groups_share_a_budget_under_caps_and_floors():
    draw = random.Random(12)
    rows = [
        (label, draw.gauss(0, 1), COSTS["lognormal"](draw)) for label in range(5) for _ in range(40)
    ]
    report = pick(rows, m=20, token_budget=1500, cap_tokens=500, floor=4, floor_tokens=120).report
    assert report.cost_kept <= 1500
    assert report.gap < 0.02
    for group in report.groups.values():
        assert 4 <= len(group.kept) <= 20
        assert tokens_of(rows, group) <= 500
        assert group.note == ""
