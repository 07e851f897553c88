import itertools
import math
import random
import subprocess
import sys
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrl.config import SelectSection
from agentrl.errors import UsageError
from agentrl.selection import Selection, select
from agentrl.selection.objective import is_flat, q, spread
from agentrl.selection.ranking import nested
from agentrl.selection.rules import RULES

FAMILIES = {
    "binary": lambda draw, n: [float(draw.random() < 0.4) for _ in range(n)],
    "three levels": lambda draw, n: [draw.choice([0.0, 0.5, 1.0]) for _ in range(n)],
    "tenths": lambda draw, n: [draw.randrange(13) / 10 for _ in range(n)],
    "gaussian": lambda draw, n: [draw.gauss(0, 1) for _ in range(n)],
    "large offset": lambda draw, n: [1e9 + draw.random() for _ in range(n)],
    "large levels": lambda draw, n: [1e9 + draw.randrange(3) for _ in range(n)],
    "tiny differences": lambda draw, n: [0.5 + 1e-13 * draw.randrange(9) for _ in range(n)],
    "one far out": lambda draw, n: [draw.random() * 1e-3 + 1e6 * (i == 1) for i in range(n)],
}

REWARDS = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=10),
    st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=10),
    st.lists(st.floats(-5, 5), min_size=2, max_size=10),
    st.lists(st.integers(0, 2**20).map(lambda i: 1e9 + i / 2**20), min_size=2, max_size=10),
)


def exact_q(rewards):
    values = [Fraction(r) for r in rewards]
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values)


def best_q(rewards, m):
    return max(exact_q(some) for some in itertools.combinations(rewards, m))


def chosen(selection, rewards):
    return sorted(rewards[i] for i in selection.indices)


def pick(rewards, m, **options) -> Selection:
    return select(rewards, options.pop("tokens", [1] * len(rewards)), m=m, **options)


# --- Q and flatness


def test_q_is_the_sum_of_squared_deviations_and_spread_its_mean():
    assert q([0, 0, 1, 1]) == 1.0
    assert spread([0, 0, 1, 1]) == 0.25
    assert q([3.0]) == 0.0
    assert spread([]) == 0.0


@given(REWARDS)
def test_q_agrees_with_exact_arithmetic(rewards):
    expected = 0.0 if is_flat(rewards) else float(exact_q(rewards))
    assert q(rewards) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("rewards", "flat"),
    [
        ([0.3, 0.1 + 0.2], True),
        ([1.0, 1.0, 1.0], True),
        ([0.0, -0.0], True),
        ([7.0], True),
        ([], True),
        ([0.0, 1e-300], False),
        ([1e9 + u for u in (0.1, 0.7, 0.4)], False),
        ([1e9, 1e9 + 1e-6], True),
        ([-1e9, -1e9 + 1e-5], False),
        ([0.5, 0.5 + 1e-12], False),
    ],
)
def test_flat_means_a_range_of_rounding_size_only(rewards, flat):
    assert is_flat(rewards) is flat


# --- the best choice


@pytest.mark.parametrize("family", FAMILIES)
def test_max_variance_is_the_best_of_all_subsets_for_every_m(family):
    draw = random.Random(family)
    for _ in range(120):
        rewards = FAMILIES[family](draw, draw.randrange(2, 9))
        if is_flat(rewards):
            continue
        for m in range(1, len(rewards) + 1):
            selection = pick(rewards, m)
            assert len(selection.indices) == m
            best = float(best_q(rewards, m))
            assert float(exact_q(chosen(selection, rewards))) == pytest.approx(best, rel=1e-9)
            assert selection.report.q_kept == pytest.approx(best, rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(REWARDS, st.integers(1, 10), st.integers(0, 3), st.sampled_from(["auto", "cheapest"]))
@example([0.0, 1.0, 2.0, 2.0], 3, 0, "auto")
@example([0.0, 0.0, 0.0, 1.0, 1.0], 4, 0, "auto")
def test_the_kept_q_is_the_largest_possible(rewards, m, seed, within):
    report = pick(rewards, m, seed=seed, within=within).report
    best = 0.0 if is_flat(rewards) else float(best_q(rewards, min(m, len(rewards))))
    assert report.q_kept == pytest.approx(best, rel=1e-9)
    assert report.upper_bound == report.q_kept
    assert report.gap == 0.0


@given(REWARDS, st.integers(0, 2), st.sampled_from(["random", "cheapest"]))
def test_choices_are_nested_as_m_grows(rewards, seed, within):
    before: set[int] = set()
    for m in range(1, len(rewards) + 1):
        now = set(pick(rewards, m, seed=seed, within=within).indices)
        assert before <= now
        before = now


def scan(rewards, m):
    """Largest Q over all cuts of the sorted rewards."""
    ranked = np.sort(np.array(rewards))
    ranked = ranked - ranked[len(ranked) // 2]
    sums = np.concatenate([[0.0], np.cumsum(ranked)])
    squares = np.concatenate([[0.0], np.cumsum(ranked**2)])
    low = np.arange(m + 1)
    high = len(ranked) - (m - low)
    total = sums[low] + sums[-1] - sums[high]
    return float((squares[low] + squares[-1] - squares[high] - total**2 / m).max())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [64, 500, 2048])
def test_the_ranking_equals_a_scan_of_all_cuts_on_large_groups(family, size):
    rewards = FAMILIES[family](random.Random(size), size)
    ranking = list(nested(rewards, range(size)))
    assert sorted(ranking) == list(range(size))
    for m in (2, 3, 7, size // 4, size // 2 + 1, size - 1, size):
        kept = q([rewards[i] for i in ranking[:m]])
        assert kept == pytest.approx(scan(rewards, m), rel=1e-6)


def test_a_binary_group_keeps_both_classes_in_equal_numbers():
    rewards = [float(i % 2) for i in range(128)]
    selection = pick(rewards, 32)
    assert chosen(selection, rewards) == [0.0] * 16 + [1.0] * 16
    assert selection.report.groups[0].spread_kept == 0.25


def test_a_rare_class_is_kept_whole():
    rewards = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert {0, 5} <= set(pick(rewards, 6).indices)


def test_a_constant_added_to_all_rewards_changes_nothing():
    rewards = [0.0, 1.0, 1.0, 0.5, 0.25, 1.0, 0.0, 0.75]
    for m in range(1, 9):
        near = pick(rewards, m, within="cheapest")
        far = pick([1e9 + r for r in rewards], m, within="cheapest")
        assert near.indices == far.indices
        assert near.report.q_kept == far.report.q_kept


def test_an_offset_does_not_round_away_which_end_lies_farther():
    draw = random.Random(0)
    steps = [draw.randrange(64) / 2**20 for _ in range(300)]
    far = [1e9 + step for step in steps]
    assert list(nested(far, range(300))) == list(nested([r - 1e9 for r in far], range(300)))


# --- equal rewards


def test_cheapest_takes_fewer_tokens_and_then_the_lower_row():
    rewards = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    tokens = [30, 10, 20, 5, 5, 5]
    assert pick(rewards, 4, tokens=tokens, within="cheapest").indices == (1, 2, 3, 4)
    assert pick(rewards, 2, tokens=tokens, within="cheapest").indices == (1, 3)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=2, max_size=8),
    st.integers(1, 8),
)
@example([(0, 9), (0, 9), (1, 1), (1, 1)], 3)
@example([(0, 1), (0, 1), (1, 9), (1, 9)], 3)
def test_cheapest_has_the_fewest_tokens_of_all_best_choices(rows, m):
    rewards, tokens = [float(r) for r, _ in rows], [t for _, t in rows]
    if is_flat(rewards):
        return
    m = max(2, min(m, len(rows)))
    subsets = list(itertools.combinations(range(len(rows)), m))
    worth = {some: exact_q([rewards[i] for i in some]) for some in subsets}
    best = max(worth.values())
    fewest = min(sum(tokens[i] for i in some) for some in subsets if worth[some] == best)
    report = select(rewards, tokens, m=m, within="cheapest").report
    assert report.tokens_kept == fewest


def test_auto_without_a_budget_draws_among_equal_rewards():
    rewards, tokens = [0.0] * 16 + [1.0] * 16, list(range(1, 17)) * 2
    counts = np.zeros(32)
    for seed in range(400):
        selection = pick(rewards, 8, tokens=tokens, seed=seed)
        assert chosen(selection, rewards) == [0.0] * 4 + [1.0] * 4
        counts[list(selection.indices)] += 1
    # Each row is kept with chance 1/4: mean 100, deviation 8.7.
    assert counts.min() > 60
    assert counts.max() < 140


def test_the_same_seed_draws_the_same_and_another_seed_another():
    rewards = [0.0] * 20 + [1.0] * 20
    assert pick(rewards, 8, seed=5) == pick(rewards, 8, seed=5)
    assert len({pick(rewards, 8, seed=seed).indices for seed in range(20)}) > 15


def test_groups_with_equal_content_draw_apart():
    rewards = ([0.0] * 16 + [1.0] * 16) * 8
    groups = [g for g in range(8) for _ in range(32)]
    report = pick(rewards, 8, groups=groups).report
    assert len({tuple(i % 32 for i in group.kept) for group in report.groups.values()}) == 8


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(sorted(RULES)), st.sampled_from(["auto", "cheapest"]))
def test_a_permuted_input_keeps_the_same_rows_up_to_equal_ones(data, rule, within):
    if rule == "first":
        return
    row = st.tuples(
        st.sampled_from("ab"), st.sampled_from([0.0, 0.5, 1.0, None]), st.integers(1, 4)
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=14))
    mixed = data.draw(st.permutations(rows))
    m, seed = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 5))

    def kept(rows):
        groups, rewards, tokens = zip(*rows, strict=True)
        done = select(rewards, tokens, groups=groups, m=m, rule=rule, within=within, seed=seed)
        return sorted(rows[i] for i in done.indices), done.report

    (one, one_report), (two, two_report) = kept(rows), kept(mixed)
    contents = [sorted(r[1:] for r in rows if r[0] == g and r[1] is not None) for g in "ab"]
    # Which of two groups with equal content came first cannot be told from content.
    if contents[0] != contents[1]:
        assert one == two
    if within == "cheapest" and rule != "random":
        assert one_report.tokens_kept == two_report.tokens_kept
    assert one_report.q_kept == pytest.approx(two_report.q_kept)
    assert one_report.tokens_all == two_report.tokens_all


@pytest.mark.parametrize("within", ["auto", "cheapest"])
def test_between_two_ends_of_equal_q_and_cost_content_decides_and_not_the_row(within):
    for rewards in itertools.permutations([0.0, 1.0, 1.0, 0.0]):
        assert chosen(pick(rewards, 3, within="cheapest"), rewards) == [0.0, 0.0, 1.0]
    rows = [(0.0, 2), (1.0, 2), (1.0, 2), (0.0, 2), (0.0, 9)]
    kept = set()
    for mixed in itertools.permutations(rows):
        rewards, tokens = zip(*mixed, strict=True)
        done = select(rewards, tokens, m=3, token_budget=6, seed=2, within=within)
        kept.add(tuple(chosen(done, rewards)))
    assert len(kept) == 1


def test_a_group_draws_the_same_alone_and_beside_others():
    rewards = [0.0] * 6 + [1.0] * 6
    alone = pick(rewards, 4, groups=["x"] * 12).indices
    beside = pick([0.0, 1.0, 0.5, *rewards], 4, groups=["y"] * 3 + ["x"] * 12)
    assert tuple(i - 3 for i in beside.report.groups["x"].kept) == alone


# --- rows and groups that are out


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf, 1e200, 10**400])
def test_an_unusable_reward_is_excluded_and_never_zero(rule, bad):
    rewards = [bad, 1.0, 0.5, bad, 0.5, 1.0]
    report = pick(rewards, 6, rule=rule).report
    assert sorted(report.excluded) == [0, 3]
    assert all("reward" in why for why in report.excluded.values())
    assert report.groups[0].kept == (1, 2, 4, 5)
    assert report.groups[0].valid == 4
    assert report.q_all == pytest.approx(0.25)
    assert (report.kept, report.of) == (4, 6)


@pytest.mark.parametrize("rule", RULES)
def test_a_row_marked_invalid_is_out_even_where_it_would_be_best(rule):
    report = pick([0.0, 100.0, 1.0], 2, valid=[True, False, True], rule=rule).report
    assert report.excluded == {1: "marked invalid"}
    assert report.groups[0].kept == (0, 2)
    assert report.tokens_all == 2


@pytest.mark.parametrize("rule", RULES)
def test_one_usable_row_is_no_contrast(rule):
    report = pick([None, None, 1.0, None], 2, rule=rule).report
    assert report.kept == 0
    assert report.groups[0].flat
    assert report.groups[0].dropped == "1 usable of 4: 2 are needed"
    assert report.q_kept == report.q_all == report.upper_bound == report.gap == 0.0


def test_nan_beside_usable_rewards_leaves_a_usable_group():
    selection = pick([math.nan, 1.0, 0.0, 1.0], 2)
    assert 2 in selection.indices
    assert 0 not in selection.indices
    assert selection.report.q_kept == 0.5


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rewards", [[1.0] * 4, [0.0] * 4, [0.3, 0.1 + 0.2, 0.3, 0.3]])
def test_a_flat_group_keeps_nothing_whatever_the_rule(rule, rewards):
    selection = pick([*rewards, 0.0, 1.0], 2, groups="aaaabb", rule=rule)
    report = selection.report
    assert selection.indices == (4, 5)
    assert report.groups["a"].flat
    assert report.groups["a"].kept == ()
    assert report.groups["a"].dropped == "flat: equal rewards"
    assert not report.groups["b"].flat
    assert report.groups["b"].dropped == ""
    assert report.flat == 1
    assert report.excluded == {}


def test_spreads_of_the_report_are_means_over_groups_that_were_kept_from():
    report = pick([1, 1, 1, 0, 0, 0, 1], 2, groups="aaabbbb").report
    assert report.spread_all == pytest.approx(3 / 16)
    assert report.spread_kept == 0.25
    assert pick([1, 1], 2).report.spread_all == 0.0


def test_fewer_usable_rows_than_m_are_all_kept():
    assert pick([0.0, 1.0, None, 1.0], 8).indices == (0, 1, 3)


def test_nothing_given_keeps_nothing():
    selection = pick([], 4)
    assert selection.indices == selection.weights == ()
    assert selection.report.groups == {}


# --- groups


def test_groups_are_told_apart_by_label_and_not_by_position():
    rewards = [0, 5, 1, 5, 0, 6, 1, 5]
    report = pick(rewards, 2, groups=["a", "b"] * 4, within="cheapest").report
    assert report.groups["a"].kept == (0, 2)
    assert report.groups["b"].kept == (1, 5)
    assert list(report.groups) == ["a", "b"]


def test_groups_may_differ_in_size():
    rewards = [0, 0, 1, 1, 7, 8, 9, 3, 3, 3, 4]
    report = pick(rewards, 2, groups=[0] * 4 + [1] * 3 + [2] * 4).report
    assert [len(group.kept) for group in report.groups.values()] == [2, 2, 2]
    assert report.groups[1].kept == (4, 6)
    assert 10 in report.groups[2].kept


def test_the_report_adds_up():
    rewards = [0.0, 1.0, 1.0, 0.0, 2.0, 2.0, None]
    tokens = [10, 20, 30, 40, 50, 60, 70]
    selection = select(rewards, tokens, m=2, groups="aaabbcc")
    report = selection.report
    parts = report.groups.values()
    assert selection.weights == (1.0,) * 4
    assert selection.indices == tuple(sorted(i for part in parts for i in part.kept))
    assert report.tokens_kept == sum(tokens[i] for i in selection.indices)
    assert report.tokens_all == 210
    assert report.q_kept == sum(part.q_kept for part in parts)
    assert (report.rule, report.method) == ("max_variance", "two-ended growth")
    assert report.price == 0.0
    assert asdict(report)["groups"]["c"]["valid"] == 1


def test_arrays_are_taken_like_lists():
    rewards = np.array([0.0, 1.0, np.nan, 1.0])
    arrays = select(
        rewards,
        np.array([3, 2, 1, 4]),
        m=2,
        groups=np.array([7, 7, 7, 7]),
        valid=np.array([True, True, True, False]),
    )
    assert arrays.indices == (0, 1)
    assert [type(label) for label in arrays.report.groups] == [int]
    assert select(list(rewards), list(np.array([3, 2, 1, 4])), m=1).report.kept == 1


# --- other rules


def test_baseline_rules_keep_what_their_names_say():
    rewards = [0.1, 0.9, 0.5, 0.3, 0.7]
    assert pick(rewards, 2, rule="all").indices == (0, 1, 2, 3, 4)
    assert pick(rewards, 2, rule="max_reward").indices == (1, 4)
    assert pick(rewards, 2, rule="first").indices == (0, 1)
    assert pick(rewards, 2, rule="percentile").indices == (0, 1)
    assert pick(rewards, 3, rule="percentile").indices == (0, 1, 2)
    assert pick(rewards, 1, rule="percentile").indices == (2,)
    assert len(pick(rewards, 2, rule="random").indices) == 2


def test_rule_all_knows_no_m_but_keeps_to_a_cap():
    rewards = [0.0, 1.0, 0.0, 1.0]
    assert len(pick(rewards, 1, rule="all").indices) == 4
    for budget in (None, 3, 40):
        selection = pick(rewards, 4, rule="all", cap=2, token_budget=budget)
        assert len(selection.indices) == 2
        assert selection.report.upper_bound == 0.5
    section = SelectSection(m=2, cap=3, rule="all")
    assert (section.question(1).m, section.question(1).most(9)) == (2, 3)
    assert SelectSection(m=4, cap=3).question(1).most(9) == 3
    assert SelectSection(m=4).question(1).most(9) == 4


def test_first_skips_rows_that_are_out():
    assert pick([None, 0.0, 1.0, 1.0], 2, rule="first").indices == (1, 2)


@given(st.sampled_from(sorted(RULES)), st.integers(1, 40), st.integers(2, 40))
def test_every_rule_keeps_min_m_n_different_rows(rule, m, n):
    indices = pick([float(i % 3) for i in range(n)], m, rule=rule).indices
    assert len(set(indices)) == len(indices) == (n if rule == "all" else min(m, n))
    assert list(indices) == sorted(indices)


@given(st.sampled_from(sorted(RULES)), REWARDS, st.integers(1, 10))
def test_the_bound_holds_for_every_rule_and_the_gap_is_what_it_loses(rule, rewards, m):
    report = pick(rewards, m, rule=rule).report
    assert report.upper_bound >= report.q_kept
    assert 0.0 <= report.gap <= 1.0
    best = 0.0 if is_flat(rewards) else float(best_q(rewards, min(m, len(rewards))))
    assert report.upper_bound >= best * (1 - 1e-12)
    if rule != "all":
        assert report.upper_bound == pytest.approx(best, rel=1e-9)


def test_random_takes_every_row_equally_often():
    counts = np.zeros(10)
    for seed in range(500):
        counts[list(pick([float(i) for i in range(10)], 3, rule="random", seed=seed).indices)] += 1
    # Mean 150, deviation 10.
    assert counts.min() > 105
    assert counts.max() < 195


# --- token budget


def test_a_budget_that_does_not_bind_changes_only_the_method():
    rewards = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    free = pick(rewards, 4, seed=3)
    held = pick(rewards, 4, seed=3, token_budget=4)
    assert held.indices == free.indices
    assert held.report.method == "unbudgeted optimum fits"
    assert held.report.gap == held.report.price == 0.0
    assert pick(rewards, 4, rule="first", token_budget=4).report.method == "first"


def test_auto_falls_back_to_cheaper_rows_of_the_same_q_where_the_budget_binds():
    rewards, tokens = [0.0, 0.0, 1.0, 1.0], [1, 100, 1, 100]
    for seed in range(8):
        selection = select(rewards, tokens, m=2, token_budget=2, seed=seed)
        assert selection.indices == (0, 2)
        assert selection.report.method == "unbudgeted optimum fits"


def test_a_budget_that_binds_is_kept_to_and_never_refused():
    report = select([0.0, 1.0, 1.0], [10, 20, 30], m=3, token_budget=40).report
    assert report.tokens_kept == 30
    assert select([0.0, 1.0], [10, 20], m=2, token_budget=10).indices == ()


# --- what the caller gets wrong


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 0}, "m: 0 is not a whole number of at least 1"),
        ({"m": 2.5}, "m: 2.5"),
        ({"seed": -1}, "seed: -1"),
        ({"token_budget": 0}, "token_budget: 0"),
        ({"rule": "max_varience"}, "rule: 'max_varience' is not one. Did you mean max_variance"),
        ({"within": "zzz"}, "within: 'zzz' is not one. Known: auto, random, cheapest"),
        ({"tokens": [1]}, "tokens: 1 values for 2 rewards"),
        ({"tokens": None}, "tokens: None is not a list"),
        ({"tokens": [1, -1]}, r"tokens\[1\]: -1"),
        ({"tokens": [1, 1.5]}, r"tokens\[1\]: 1.5"),
        ({"tokens": [1, math.inf]}, r"tokens\[1\]: inf"),
        ({"tokens": [1, "2"]}, r"tokens\[1\]: '2'"),
        ({"valid": [True]}, "valid: 1 values for 2 rewards"),
        ({"valid": [True, "false"]}, r"valid\[1\]: 'false'"),
        ({"groups": [0]}, "groups: 1 values for 2 rewards"),
        ({"groups": [[1], [2]]}, r"groups\[0\]: \[1\] cannot be a label"),
        ({"rewards": ["0", "1"]}, r"rewards\[0\]: '0' is not a number"),
        ({"rewards": [[0, 1], [1, 0]]}, r"rewards\[0\]: \[0, 1\] is not a number"),
        ({"rewards": 3}, "rewards: 3 is not a list"),
    ],
)
def test_a_mistake_is_named_with_where_it_is(change, message):
    asked = {"rewards": [0.0, 1.0], "tokens": [1, 1], "m": 2} | change
    with pytest.raises(UsageError, match=message):
        select(asked.pop("rewards"), asked.pop("tokens"), **asked)


def test_totals_that_no_float_holds_are_refused():
    half = 2**52
    assert select([0.0, 1.0], [half, half], m=2, token_budget=2**54).report.tokens_kept == 2**53
    with pytest.raises(UsageError, match=r"^tokens: 9007199254740993 in all are more than 2\*\*53"):
        select([0.0, 1.0], [half, half + 1], m=2)
    with pytest.raises(UsageError, match=r"^costs: 13510798882111488 in all"):
        select([0.0, 1.0, 1.0], [1, 1, 1], m=2, costs=[half] * 3)
    with pytest.raises(UsageError, match=r"^tokens: 9223372036854775808 in all"):
        select([0, 1] * 512, [2**53] * 1024, m=1024, token_budget=2**54)
    assert select([0.0, 1.0, None], [half] * 3, m=2).report.tokens_all == 2**53


def test_tokens_of_a_row_that_is_out_do_not_matter():
    assert select([None, 0.0, 1.0], [None, 1.0, 2], m=2).report.tokens_kept == 3


# --- purity


def test_selecting_leaves_the_global_random_state_and_its_arguments_alone():
    rewards, tokens = [0.0, 1.0, 1.0], [1, 2, 3]
    state = np.random.get_state()[1].tolist()
    select(rewards, tokens, m=2, rule="random")
    assert np.random.get_state()[1].tolist() == state
    assert (rewards, tokens) == ([0.0, 1.0, 1.0], [1, 2, 3])


def test_the_choice_does_not_depend_on_the_hash_seed_and_loads_no_torch():
    program = (
        "import sys; from agentrl.selection import select; import agentrl.advantage;"
        "print(select([0,1]*8, range(16), m=4, groups=['a','b','b','a']*4).indices,"
        "[n for n in ('torch','gymnasium','pydantic','vllm','transformers') if n in sys.modules])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().strip().endswith("[]")
