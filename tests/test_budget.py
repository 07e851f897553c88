import math
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl.selection import select
from agentrl.selection.alone import general
from agentrl.selection.effective import effective_tokens
from agentrl.selection.found import Quota
from agentrl.selection.ladder import by_cost, ladder, scale_of
from agentrl.selection.pool import read
from agentrl.selection.rules import RULES
from agentrl.selection.truncation import judged
from tests.brute import best, frontier, priced

REWARDS = {
    "binary": lambda draw, n: [float(draw.random() < 0.5) for _ in range(n)],
    "three levels": lambda draw, n: [draw.choice([0.0, 0.5, 1.0]) for _ in range(n)],
    "many levels": lambda draw, n: [draw.randrange(21) / 20 for _ in range(n)],
    "gaussian": lambda draw, n: [draw.gauss(0, 1) for _ in range(n)],
    "large offset": lambda draw, n: [1e9 + draw.random() for _ in range(n)],
    "tiny differences": lambda draw, n: [0.5 + 1e-13 * draw.randrange(9) for _ in range(n)],
    "one far out": lambda draw, n: [draw.random() * 1e-3 + 1e6 * (i == 1) for i in range(n)],
}
COSTS = {
    "lognormal": lambda draw, n: [1 + int(50 * draw.lognormvariate(0, 0.7)) for _ in range(n)],
    "few, some free": lambda draw, n: [draw.randrange(4) for _ in range(n)],
    "equal": lambda draw, n: [7] * n,
    "one huge": lambda draw, n: [10**12] + [draw.randrange(1, 50) for _ in range(n - 1)],
}
SHARES = (0.03, 0.1, 0.25, 0.5, 0.8)

ROW = st.tuples(
    st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.integers(-40, 40).map(lambda i: i / 8)),
    st.integers(0, 30),
)
ROWS = st.lists(ROW, min_size=1, max_size=9)


def instance(draw, family, kind, most=12):
    n = draw.randrange(2, most + 1)
    rewards, costs = REWARDS[family](draw, n), COSTS[kind](draw, n)
    budget = 1 + int(draw.choice(SHARES) * sum(min(c, 10**4) for c in costs))
    return rewards, costs, draw.randrange(2, n + 1), budget


def check(selection, rewards, costs, *, m, budget):
    kept = list(selection.indices)
    assert len(kept) <= m
    assert sum(costs[i] for i in kept) == selection.report.cost_kept <= budget
    assert selection.report.q_kept <= selection.report.upper_bound * (1 + 1e-12)


# --- against all subsets


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("family", REWARDS)
def test_nothing_that_fits_has_a_larger_q(family, kind):
    draw = random.Random(f"{family} {kind}")
    for _ in range(100):
        rewards, costs, m, budget = instance(draw, family, kind, most=10)
        selection = select(rewards, costs, m=m, token_budget=budget, seed=draw.randrange(3))
        check(selection, rewards, costs, m=m, budget=budget)
        optimum = best([(rewards, costs)], m=m, budget=budget)
        assert selection.report.q_kept == pytest.approx(optimum, rel=1e-9)
        assert selection.report.upper_bound == selection.report.q_kept
        assert selection.report.gap == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("family", REWARDS)
def test_nothing_that_fits_has_a_larger_q_in_thousands_of_groups_of_up_to_12(family, kind):
    draw = random.Random(f"slow {family} {kind}")
    for _ in range(1500):
        rewards, costs, m, budget = instance(draw, family, kind)
        selection = select(rewards, costs, m=m, token_budget=budget)
        check(selection, rewards, costs, m=m, budget=budget)
        optimum = best([(rewards, costs)], m=m, budget=budget)
        assert selection.report.q_kept == pytest.approx(optimum, rel=1e-9)


@pytest.mark.parametrize("width", [0, 1, 4096])
@pytest.mark.parametrize("family", REWARDS)
def test_the_general_method_certifies_and_a_wide_search_is_exact(family, width):
    draw = random.Random(f"general {family}")
    ratios = []
    for _ in range(80):
        rewards, costs, m, budget = instance(draw, family, draw.choice(sorted(COSTS)), most=9)
        least = draw.choice([0, 0, 2, 3])
        (pool,), _ = read(rewards, costs, None, None, 0)
        scale = scale_of([pool])
        offer = ladder(pool, budget, scale, by_cost)
        optimum = best([(rewards, costs)], m=m, budget=budget, least=least)
        if pool.flat or offer.values.size < 2 or min(m, offer.steps.size) < max(least, 2):
            continue
        found = general(offer, Quota(m, least), budget, width)
        worth, bound = found.worth * scale**2, found.bound * scale**2
        assert offer.cost(found.counts) <= budget
        if optimum is None:
            assert worth == 0
            continue
        assert bound >= optimum * (1 - 1e-11)
        assert worth <= bound
        if optimum > 0:
            assert least <= found.counts.sum() <= m
            ratios.append(worth / optimum)
    if width == 4096:
        assert min(ratios) > 1 - 1e-9
    assert min(ratios) > 0.2
    assert np.mean(ratios) > 0.97


@settings(max_examples=400)
@given(ROWS, st.integers(2, 9), st.integers(1, 200), st.integers(0, 4), st.booleans())
@example([(0.0, 3), (1.0, 3)], 2, 5, 0, False)
@example([(0.0, 1), (0.5, 1), (1.0, 1)], 3, 3, 3, False)
@example([(0.0, 0), (1.0, 0)], 2, 1, 2, True)
def test_floor_m_and_budget_hold_and_q_is_the_largest_that_they_allow(
    rows, m, budget, floor, padded
):
    rewards, costs = [r for r, _ in rows], [c for _, c in rows]
    floor = min(floor, m)
    done = select(rewards, costs, m=m, token_budget=budget, floor=floor, padded=padded)
    report, (group,) = done.report, done.report.groups.values()
    assert len(done.indices) <= m
    assert report.cost_kept <= budget
    honoured = bool(floor) and not group.flat and not group.note and not group.dropped
    if honoured:
        assert len(done.indices) >= min(max(floor, 2), len(rows))
    least = floor if honoured else 0
    optimum = best([(rewards, costs)], m=m, budget=budget, least=least, padded=padded)
    assert report.q_kept == pytest.approx(optimum, rel=1e-9)
    assert report.gap == 0.0
    if floor and not honoured and not group.flat:
        assert best([(rewards, costs)], m=m, budget=budget, least=floor, padded=padded) is None


@settings(max_examples=200)
@given(ROWS, st.integers(2, 9), st.integers(1, 120))
def test_of_equal_q_the_fewest_tokens_are_kept(rows, m, budget):
    rewards, costs = [r for r, _ in rows], [c for _, c in rows]
    report = select(rewards, costs, m=m, token_budget=budget).report
    if report.method == "unbudgeted optimum fits":
        return
    cost, worth = frontier(rewards, costs, m=m, limit=budget)
    fewest = cost[worth >= worth.max() * (1 - 1e-12)].min() if worth.max() > 0 else 0
    assert report.tokens_kept == fewest


@settings(max_examples=200)
@given(
    st.data(),
    ROWS,
    st.integers(2, 6),
    st.integers(1, 120),
    st.sampled_from(["auto", "cheapest", "random", "ht"]),
)
def test_a_permuted_input_keeps_the_same_rows_up_to_equal_ones(data, rows, m, budget, within):
    mixed = data.draw(st.permutations(rows))

    def kept(rows):
        rewards, costs = [r for r, _ in rows], [c for _, c in rows]
        done = select(rewards, costs, m=m, token_budget=budget, within=within, seed=1)
        pairs = zip(done.indices, done.weights, strict=True)
        return done.report, sorted((*rows[i], round(weight, 9)) for i, weight in pairs)

    (one, one_rows), (two, two_rows) = kept(rows), kept(mixed)
    assert one.q_kept == pytest.approx(two.q_kept)
    assert one.tokens_kept == two.tokens_kept
    assert (one.method, one.price) == (two.method, pytest.approx(two.price))
    assert one_rows == two_rows


@given(ROWS, st.integers(2, 6), st.integers(1, 120), st.sampled_from(["auto", "random", "ht"]))
def test_the_same_seed_chooses_the_same(rows, m, budget, within):
    rewards, costs = [r for r, _ in rows], [c for _, c in rows]
    one, two = (
        select(rewards, costs, m=m, token_budget=budget, within=within, seed=3) for _ in range(2)
    )
    assert one == two


# --- large groups


@pytest.mark.parametrize("family", REWARDS)
@pytest.mark.parametrize("n", [64, 300, 1100])
def test_a_large_group_comes_with_a_certificate_and_leaves_no_room(family, n):
    draw = random.Random(f"large {family} {n}")
    for share in (0.3, 0.6, 0.9):
        rewards, costs = REWARDS[family](draw, n), COSTS["lognormal"](draw, n)
        m = n // 4
        budget = int(share * m * sum(costs) / n)
        selection = select(rewards, costs, m=m, token_budget=budget)
        check(selection, rewards, costs, m=m, budget=budget)
        report = selection.report
        free = select(rewards, costs, m=m).report
        assert report.q_kept <= free.q_kept * (1 + 1e-12)
        assert report.gap <= 0.002
        # Beside one row far out the others bring less than the price is found to.
        if report.method != "unbudgeted optimum fits" and family != "one far out":
            assert report.price > 0


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("family", ["binary", "three levels", "many levels", "gaussian"])
def test_rounding_alone_loses_little_in_large_groups_even_where_tokens_cost_nothing(family, share):
    draw = random.Random(f"rounding {family}")
    rewards, costs = REWARDS[family](draw, 2000), COSTS["lognormal"](draw, 2000)
    (pool,), _ = read(rewards, costs, None, None, 0)
    budget, scale = int(share * sum(costs) / 4), scale_of([pool])
    found = general(ladder(pool, budget, scale, by_cost), Quota(500), budget, 0)
    assert found.worth <= found.bound <= found.worth * 1.01


def test_a_wider_budget_never_keeps_less():
    draw = random.Random(5)
    rewards, costs = REWARDS["gaussian"](draw, 40), COSTS["lognormal"](draw, 40)
    kept = [
        select(rewards, costs, m=10, token_budget=budget).report.q_kept
        for budget in range(50, 1500, 90)
    ]
    assert kept == sorted(kept)


@pytest.mark.parametrize(
    ("family", "m"),
    [("binary", 400), ("three levels", 400), ("many levels", 80), ("gaussian", 80)],
)
def test_the_price_is_near_what_more_tokens_bring(family, m):
    draw = random.Random(8)
    for _ in range(3):
        rewards, costs = REWARDS[family](draw, 400), COSTS["lognormal"](draw, 400)
        low, mid, high = (
            select(rewards, costs, m=m, token_budget=b).report for b in (1700, 2000, 2300)
        )
        assert mid.price == pytest.approx((high.q_kept - low.q_kept) / 600, rel=0.25)


# --- what each method is


def method(rewards, costs, **options):
    return select(rewards, costs, **{"m": 4, "token_budget": 40} | options).report.method


def test_the_cheapest_exact_method_is_taken():
    costs = [20, 25, 30, 12, 14, 16, 18, 22]
    assert method([0, 0, 0, 0, 1, 1, 1, 1], costs) == "two rewards: exact"
    assert method([0, 0, 0.5, 0.5, 1, 1, 1, 0.5], costs) == "few rewards: exact"
    assert method([0, 0, 0, 0, 1, 1, 1, 1], [15] * 8) == "equal costs: exact"
    assert method([0, 0, 0, 0, 1, 1, 1, 1], costs, padded=True) == "padded: exact"
    assert method([0, 0, 0, 0, 1, 1, 1, 1], costs, token_budget=100) == "unbudgeted optimum fits"
    assert method([0, 0, 1, 1] * 2, costs, groups="aaaabbbb") == "one token price: exact"
    draw = random.Random(0)
    rewards, costs = REWARDS["gaussian"](draw, 40), COSTS["lognormal"](draw, 40)
    assert method(rewards, costs, m=10, token_budget=300) == "branch and bound: exact"


def test_cheap_rows_of_either_reward_are_preferred():
    done = select([1, 1, 1, 0, 0, 0], [9, 1, 2, 8, 1, 3], m=6, token_budget=5)
    assert done.indices == (1, 2, 4)
    assert done.report.q_kept == pytest.approx(2 / 3)
    done = select([1, 1, 0, 0], [2, 2, 2, 2], m=4, token_budget=6)
    assert done.indices in ((0, 2, 3), (0, 1, 2))
    assert done.report.price == pytest.approx((1 - 2 / 3) / 2)


def test_padded_rows_cost_as_much_as_the_longest():
    rewards, costs = [0, 0, 1, 1, 1, 0], [10, 10, 10, 10, 90, 90]
    done = select(rewards, costs, m=6, token_budget=100, padded=True)
    assert done.indices == (0, 1, 2, 3)
    assert done.report.cost_kept == done.report.tokens_kept == 40
    assert select(rewards, costs, m=6, token_budget=200, padded=True).report.cost_kept <= 200


def test_other_costs_than_tokens_are_what_counts():
    tokens = [100, 1000, 100, 1000]
    costs = [effective_tokens(t, 500) for t in tokens]
    assert costs == [120, 3000, 120, 3000]
    done = select([0.0, 0.0, 1.0, 1.0], tokens, costs=costs, m=4, token_budget=3000)
    assert (done.indices, done.report.tokens_kept, done.report.cost_kept) == ((0, 2), 200, 240)


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_effective_tokens_are_rounded_up(tokens, l0):
    assert effective_tokens(tokens, l0) == tokens + math.ceil(tokens * tokens / l0 - 1e-9)


# --- nothing to keep


def test_where_no_contrast_fits_nothing_is_kept_and_the_reason_is_given():
    done = select([0.0, 1.0, 0.0], [10, 20, 10], m=2, token_budget=25)
    assert done.indices == done.weights == ()
    assert done.report.groups[0].dropped == "no two different rewards fit 25 tokens"
    assert done.report.upper_bound == done.report.gap == 0.0
    assert done.report.tokens_kept == done.report.cost_kept == 0
    assert select([0.0, 1.0], [5, 5], m=1, token_budget=5).indices != ()
    one = select([0.0, 1.0], [5, 5], m=1, token_budget=3)
    assert one.report.groups[0].dropped == "m is 1: one row alone has no contrast"


@pytest.mark.parametrize("rule", RULES)
def test_without_usable_rows_a_budget_changes_nothing(rule):
    for rewards in ([None] * 3, [1.0] * 3, []):
        done = select(rewards, [5] * len(rewards), m=2, token_budget=1, rule=rule)
        assert done.indices == ()
        assert done.report.upper_bound == 0.0


def test_a_floor_that_does_not_fit_is_dropped_and_the_group_says_so():
    done = select([0, 0, 1, 1], [10, 10, 10, 10], m=4, token_budget=25, floor=3)
    assert len(done.indices) == 2
    assert done.report.groups[0].note == "floor of 3 rows dropped: it does not fit"
    assert select([0, 0, 1, 1], [10] * 4, m=4, token_budget=35, floor=3).report.groups[0].note == ""


def test_a_floor_takes_more_rows_where_fewer_would_be_worth_more():
    rewards, tokens = [-10.0, 10.0, 0.0, 1.0, 0.5], [50, 50, 10, 10, 10]
    assert select(rewards, tokens, m=5, token_budget=100).indices == (0, 1)
    done = select(rewards, tokens, m=5, token_budget=100, floor=4)
    assert len(done.indices) == 4
    assert done.report.gap == 0.0


def test_cap_bounds_rows_and_cap_tokens_bounds_tokens():
    rewards, tokens = [0.0, 1.0] * 4, [10] * 8
    assert len(select(rewards, tokens, m=6, cap=3).indices) == 3
    done = select(rewards, tokens, m=6, cap_tokens=45)
    assert len(done.indices) == 4
    assert done.report.price == 0.0


def test_the_reason_speaks_of_what_did_not_fit():
    done = select([0, 1], [3, 1], m=2, token_budget=4, padded=True)
    assert done.report.groups[0].dropped == "no two different rewards fit 4 tokens"
    done = select([0, 1, 0], [5, 5, 5], m=1, floor=1, token_budget=3)
    assert done.report.groups[0].dropped == "m is 1: one row alone has no contrast"
    done = select([0, 1, 0, 1], [3, 9, 3, 9], m=2, groups="aabb", token_budget=11)
    assert done.report.groups["a"].dropped == "no two different rewards fit 11 tokens"


@pytest.mark.parametrize(
    ("within", "padded"),
    [
        ("auto", False),
        ("auto", True),
        ("cheapest", False),
        ("random", False),
        ("random", True),
        ("ht", False),
    ],
)
def test_where_only_rewards_fit_that_differ_by_rounding_nothing_is_kept_or_was_possible(
    within, padded
):
    rewards = [0.300000000000005, 0.300000000000004, 0.300000000000003]
    options = {"m": 2, "within": within, "padded": padded, "token_budget": 2 if padded else 1}
    report = select(rewards, [1, 0, 1 + padded], **options).report
    assert report.kept == 0
    assert (report.upper_bound, report.gap, report.price) == (0.0, 0.0, 0.0)
    why = report.groups[0].dropped
    assert why.startswith("no two rewards that differ by more than rounding fit")
    floored = select(rewards, [1, 0, 1 + padded], floor=2, **options).report.groups[0].dropped
    assert floored == f"floor of 2 rows dropped: it does not fit; {why}"


def test_groups_of_which_only_rounding_fits_leave_the_others_their_tokens():
    rewards = [0.300000000000005, 0.300000000000004, 0.300000000000003, 0.0, 0.0, 1.0]
    report = select(rewards, [1, 0, 1, 1, 1, 1], m=3, groups="aaabbb", token_budget=1).report
    assert report.groups["a"].dropped.startswith("no two rewards that differ by more than rounding")
    assert report.kept == 0
    report = select(rewards, [2, 0, 2, 1, 1, 1], m=3, groups="aaabbb", token_budget=3).report
    assert report.groups["b"].kept == (3, 4, 5)
    assert report.gap == 0.0


def test_rows_that_fit_only_alone_do_not_coarsen_the_numbers_of_the_rest():
    rewards = [307050193.8135397, -592360270.4690964, 1000000000.000003, 999999999.9999411]
    costs = [81, 81, 35, 25]
    report = select(rewards, costs, m=3, token_budget=81).report
    assert report.groups[0].kept == (2, 3)
    assert report.gap == 0.0
    assert report.upper_bound == pytest.approx(float(np.diff(rewards[2:])[0]) ** 2 / 2, rel=1e-12)
    near = select([0.3, 0.30000001, 1e149], [1, 1, 9], m=2, token_budget=2, padded=True).report
    assert (near.kept, near.gap) == (2, 0.0)


def test_groups_that_cannot_be_afforded_do_not_hide_those_that_can():
    rewards, tokens = [0.3, 0.3000000000001, 0, 1e149], [1, 1, 9, 9]
    report = select(rewards, tokens, m=2, groups=[0, 0, 1, 1], token_budget=2).report
    assert report.groups[0].kept == (0, 1)
    assert report.groups[1].dropped == "no two different rewards fit 2 tokens"


@settings(max_examples=200)
@given(ROWS, st.integers(2, 9), st.integers(1, 150))
@example([(0.0, 1), (1.0, 1), (0.5, 9), (1.0, 9)], 4, 8)
def test_the_padded_price_is_the_most_q_a_token_of_any_dearer_choice(rows, m, budget):
    rewards, costs = [r for r, _ in rows], [c for _, c in rows]
    report = select(rewards, costs, m=m, token_budget=budget, padded=True).report
    if report.method != "padded: exact":
        return
    size, cost, worth = priced(rewards, costs, padded=True)
    dearer = (size <= m) & (cost > report.cost_kept)
    rates = (worth - report.q_kept)[dearer] / (cost - report.cost_kept)[dearer]
    assert report.price == pytest.approx(max(rates.max(initial=0.0), 0.0), abs=1e-9)


# --- other rules


@given(ROWS, st.integers(1, 9), st.integers(1, 120), st.sampled_from(sorted(RULES)), st.booleans())
def test_a_rule_under_a_budget_keeps_to_it_and_to_its_order(rows, m, budget, rule, padded):
    rewards, costs = [r for r, _ in rows], [c for _, c in rows]
    done = select(rewards, costs, m=m, token_budget=budget, rule=rule, padded=padded)
    assert len(done.indices) <= (len(rows) if rule == "all" else m)
    assert done.report.cost_kept <= budget
    assert 0.0 <= done.report.gap <= 1.0
    optimum = best([(rewards, costs)], m=m, budget=budget, padded=padded)
    assert done.report.upper_bound >= optimum * (1 - 1e-9)


def test_rules_pass_over_what_does_not_fit():
    rewards, tokens = [0.1, 0.9, 0.5, 0.3, 0.7], [10, 60, 10, 10, 10]
    kept = {
        rule: select(rewards, tokens, m=3, token_budget=30, rule=rule).indices for rule in RULES
    }
    assert kept["first"] == (0, 2, 3)
    assert len(kept["all"]) == 3
    assert 1 not in kept["all"]
    assert kept["max_reward"] == (2, 3, 4)
    assert kept["percentile"] == (0, 2)
    assert len(kept["random"]) == 3
    report = select(rewards, tokens, m=3, token_budget=30, rule="first").report
    assert report.method == "first, while it fits"
    assert report.upper_bound > report.q_kept


def test_rules_serve_groups_in_turn():
    done = select([0, 1, 1, 0] * 2, [10] * 8, m=4, token_budget=40, groups="aaaabbbb", rule="first")
    assert done.indices == (0, 1, 4, 5)


# --- length


def test_the_length_ratio_says_how_much_shorter_the_kept_are_than_their_like():
    rewards, tokens = [0.0] * 4 + [1.0] * 4, [10, 20, 30, 40] * 2
    tight = select(rewards, tokens, m=4, token_budget=60).report
    assert tight.length_ratio == pytest.approx(60 / 100)
    assert tight.shorter
    whole = select(rewards, tokens, m=8).report
    assert whole.length_ratio == 1.0
    assert not whole.shorter
    assert select([0.0, 1.0, 2.0], [5, 9, 70], m=2, token_budget=20).report.length_ratio == 1.0
    assert select([], [], m=2).report.length_ratio == 1.0


# --- truncated


def test_truncated_rows_are_scored_masked_or_set_to_zero():
    rewards, cut = [0.5, 1.0, None, 0.0], [True, False, True, False]
    assert judged(rewards, cut, "score") == (rewards, [True] * 4)
    assert judged(rewards, cut, "mask") == (rewards, [False, True, False, True])
    assert judged(rewards, cut, "zero") == ([0.0, 1.0, 0.0, 0.0], [True] * 4)
    with pytest.raises(UsageError, match="Did you mean score"):
        judged(rewards, cut, "scores")


# --- what the caller gets wrong


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"floor": 3}, "floor: 3 rows are more than the 2 that may be kept"),
        ({"cap": 1, "floor": 2}, "floor: 2 rows are more than the 1"),
        ({"cap": 0}, "cap: 0 is not a whole number of at least 1"),
        ({"floor": -1}, "floor: -1 is not"),
        ({"cap_tokens": 0}, "cap_tokens: 0 is not"),
        ({"floor_tokens": 1.5}, "floor_tokens: 1.5 is not"),
        ({"floor_tokens": 9, "cap_tokens": 8}, "floor_tokens: 9 are more than cap_tokens 8"),
        ({"floor": 2, "rule": "first"}, "floor: rule first has none"),
        ({"within": "ht", "rule": "first"}, "within: rule first has none"),
        ({"unbiased": True, "rule": "first"}, "unbiased: rule first has none"),
        ({"unbiased": True, "within": "cheapest"}, "unbiased: within cheapest gives some rows no"),
        ({"unbiased": True, "m": 1}, "unbiased: m is 1"),
        ({"unbiased": True, "padded": True}, "padded: rows drawn by chance"),
        ({"costs": [1]}, "costs: 1 values for 2 rewards"),
        ({"costs": [1, 0.5]}, r"costs\[1\]: 0.5"),
        ({"tokens": [1, 2**60]}, r"tokens\[1\]: .* at most 2\*\*53"),
    ],
)
def test_a_mistake_is_named(change, message):
    asked = {"rewards": [0.0, 1.0], "tokens": [1, 1], "m": 2} | change
    with pytest.raises(UsageError, match=message):
        select(asked.pop("rewards"), asked.pop("tokens"), **asked)


def test_effective_tokens_refuses_what_is_no_length():
    with pytest.raises(UsageError, match="l0 = 0"):
        effective_tokens(5, 0)
