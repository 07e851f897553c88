import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.advantage import advantages
from agentrl.selection import select
from agentrl.selection.pool import read
from agentrl.selection.sampling import GRAIN, dearest, drawing, ends, hit

SIZES = st.lists(st.floats(0.01, 10), min_size=1, max_size=10)


def drawn(rewards, tokens, groups, directions, *, advantage, seeds=500, **options):
    """Mean over seeds of (1/K) sum over kept of weight * advantage * direction, and its error."""
    parts = []
    for seed in range(seeds):
        done = select(rewards, tokens, groups=groups, seed=seed, **options)
        kept = list(done.indices)
        part = np.array(done.weights)[:, None] * advantage[kept][:, None] * directions[kept]
        parts.append(part.sum(axis=0) / len(kept))
    return np.mean(parts, axis=0), np.std(parts, axis=0) / seeds**0.5


def agrees(found, expected):
    """Within four standard errors, which are small beside what is expected."""
    mean, error = found
    assert np.abs(mean - expected).max() <= 4 * error.max() + 1e-12
    assert error.max() < 0.25 * np.abs(expected).max()


def group_advantages(rewards, groups):
    values = np.zeros(len(rewards))
    for label in dict.fromkeys(groups):
        rows = [i for i, g in enumerate(groups) if g == label]
        own = [rewards[i] for i in rows]
        values[rows] = advantages(own, range(len(own)), stats="group", scale=False)
    return values


# --- drawing by a comb


@given(SIZES, st.data())
def test_chances_sum_to_the_count_and_follow_the_sizes(sizes, data):
    count = data.draw(st.integers(1, len(sizes)))
    chance = np.diff(ends(np.array(sizes), count), prepend=0.0)
    assert chance.sum() == count
    assert chance.max() <= 1
    under = np.flatnonzero(chance < 1 - 1e-9)
    ratio = chance[under] / np.array(sizes)[under]
    assert ratio == pytest.approx(np.full(under.size, ratio.mean() if under.size else 0), rel=1e-6)


@given(SIZES, st.data())
def test_every_row_is_hit_exactly_as_often_as_its_chance_says(sizes, data):
    count = data.draw(st.integers(1, len(sizes)))
    line = ends(np.array(sizes), count)
    # What is hit changes only where a tooth meets an end: all cases, each with its length.
    stops = np.unique(np.concatenate(([0.0, 1.0], line % 1.0)))
    often = np.zeros(len(sizes))
    for low, high in itertools.pairwise(stops):
        rows = hit(line, float((low + high) / 2))
        assert len(set(rows.tolist())) == count
        often[rows] += high - low
    assert often == pytest.approx(np.diff(line, prepend=0.0), abs=4 / GRAIN)


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 99)), min_size=1, max_size=9), st.data()
)
def test_no_draw_costs_more_than_the_dearest(rows, data):
    sizes, costs = np.array([s for s, _ in rows]), np.array(sorted(c for _, c in rows))
    line = ends(sizes, data.draw(st.integers(1, len(rows))))
    stops = np.unique(np.concatenate(([0.0], line[:-1] % 1.0)))
    spent = [int(costs[hit(line, float(stop))].sum()) for stop in stops]
    assert max(spent) == dearest(line, costs)


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 99)), min_size=1, max_size=9),
    st.integers(1, 10),
    st.integers(1, 500),
)
def test_steps_for_drawing_are_those_of_the_dearest_draw_as_far_as_a_choice_can_go(
    rows, most, limit
):
    costs = sorted(c for _, c in rows)
    sizes = np.array([s for s, _ in rows])
    (pool,), _ = read([1.0] * len(rows), costs, None, None, 0)
    _, steps = drawing(lambda pool: sizes, most, limit)(
        pool, np.arange(len(rows)), np.array([0, len(rows)])
    )
    spent = 0
    for count, total in enumerate(np.cumsum(steps).tolist()[:most], start=1):
        spent = max(spent, dearest(ends(sizes, count), np.array(costs)))
        assert total == spent
        if total > limit:
            break
    assert all(total > limit for total in np.cumsum(steps).tolist()[count:most] if spent > limit)


# --- Horvitz-Thompson within a class


def test_ht_takes_short_rows_more_often_and_weighs_them_less():
    rewards, tokens = [0.0] * 8 + [1.0] * 8, [10, 10, 10, 10, 90, 90, 90, 90] * 2
    counts, weights = np.zeros(16), np.zeros(16)
    for seed in range(400):
        done = select(rewards, tokens, m=8, within="ht", seed=seed)
        assert [rewards[i] for i in done.indices] == [0.0] * 4 + [1.0] * 4
        counts[list(done.indices)] += 1 / 400
        weights[list(done.indices)] = done.weights
    assert counts[0] > 2 * counts[4]
    assert weights[4] == pytest.approx(3 * weights[0])
    # Chance times weight is the same for all: no row counts more on average.
    assert counts * weights == pytest.approx(np.full(16, 0.5), rel=0.25)


@pytest.mark.parametrize("budget", [None, 700])
def test_ht_weights_reproduce_a_random_draw_within_each_class(budget):
    draw = random.Random(1)
    rewards = [float(i % 3 == 0) for i in range(18)]
    tokens = [20 + int(60 * draw.random()) for _ in rewards]
    directions = np.random.default_rng(0).normal(size=(18, 3))
    options = {"m": 8, "token_budget": budget, "within": "ht"}
    done = select(rewards, tokens, **options)
    kept = [rewards[i] for i in done.indices]
    advantage = np.array(rewards) - np.mean(kept)
    found = drawn(rewards, tokens, [0] * 18, directions, advantage=advantage, **options)
    expected = np.zeros(3)
    for value in (0.0, 1.0):
        rows = [i for i, r in enumerate(rewards) if r == value]
        part = advantage[rows][:, None] * directions[rows]
        expected += kept.count(value) / len(kept) * part.mean(axis=0)
    agrees(found, expected)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 30)),
        min_size=2,
        max_size=16,
    ),
    st.integers(2, 8),
    st.integers(1, 200),
    st.integers(0, 20),
    st.sampled_from([{"within": "ht"}, {"unbiased": True}, {"unbiased": True, "within": "ht"}]),
)
def test_no_draw_breaks_m_or_the_budget(rows, m, budget, seed, options):
    groups, rewards, tokens = zip(*rows, strict=True)
    done = select(rewards, tokens, groups=groups, m=m, token_budget=budget, seed=seed, **options)
    assert done.report.tokens_kept <= budget
    assert all(len(group.kept) <= m for group in done.report.groups.values())
    assert all(weight > 0 for weight in done.weights)
    assert done.report.upper_bound >= done.report.q_kept


# --- the gradient of the whole group


FAMILIES = {
    "binary": lambda draw: float(draw.random() < 0.35),
    "three levels": lambda draw: draw.choice([0.0, 0.5, 1.0]),
    "gaussian": lambda draw: draw.gauss(0, 1),
}


@pytest.mark.parametrize("within", ["auto", "ht"])
@pytest.mark.parametrize("family", FAMILIES)
def test_unbiased_weights_reproduce_the_gradient_of_all_rows(family, within):
    draw = random.Random(f"unbiased {family}")
    rewards = [FAMILIES[family](draw) for _ in range(20)]
    tokens = [10 + int(40 * draw.random()) for _ in rewards]
    directions = np.random.default_rng(1).normal(size=(20, 3))
    advantage = group_advantages(rewards, [0] * 20)
    options = {"m": 8, "token_budget": 260, "within": within, "unbiased": True}
    found = drawn(rewards, tokens, [0] * 20, directions, advantage=advantage, **options)
    expected = (advantage[:, None] * directions).mean(axis=0)
    agrees(found, expected)


def test_unbiased_weights_hold_for_groups_of_different_size_under_one_budget():
    draw = random.Random(2)
    groups = ["a"] * 8 + ["b"] * 16 + ["c"] * 4
    rewards = [0.0, 1.0] * 4 + [float(i % 4 == 0) for i in range(16)] + [0.0, 0.3, 0.9, 1.0]
    tokens = [10 + int(40 * draw.random()) for _ in rewards]
    directions = np.random.default_rng(2).normal(size=(28, 3))
    advantage = group_advantages(rewards, groups)
    options = {"m": 6, "token_budget": 500, "unbiased": True}
    found = drawn(rewards, tokens, groups, directions, advantage=advantage, **options)
    agrees(found, (advantage[:, None] * directions).mean(axis=0))


def test_cheapest_rows_would_not_reproduce_it():
    rewards, tokens = [0.0] * 8 + [1.0] * 8, list(range(10, 90, 10)) * 2
    directions = np.array(tokens, dtype=float)[:, None] * np.array(rewards)[:, None]
    advantage = group_advantages(rewards, [0] * 16)
    expected = (advantage[:, None] * directions).mean(axis=0)
    options = {"advantage": advantage, "m": 8, "token_budget": 240, "seeds": 200}
    agrees(drawn(rewards, tokens, [0] * 16, directions, unbiased=True, **options), expected)
    short, _ = drawn(rewards, tokens, [0] * 16, directions, **options)
    assert short < 0.7 * expected


def test_unbiased_keeps_both_sides_of_every_group_or_says_which_is_missing():
    groups, rewards = ["a"] * 4 + ["b"] * 4, [0.0, 0.0, 1.0, 1.0] * 2
    tokens = [10] * 4 + [200] * 4
    report = select(rewards, tokens, groups=groups, m=4, token_budget=420, unbiased=True).report
    assert all(len(group.kept) >= 2 for group in report.groups.values())
    report = select(rewards, tokens, groups=groups, m=4, token_budget=300, unbiased=True).report
    assert report.groups["b"].kept == ()
    assert report.groups["b"].dropped == "a draw from both sides of the mean does not fit"
    one = select([0, 1, 0, 1, 5], [1, 1, 1, 1, 100], m=4, token_budget=50, unbiased=True).report
    assert one.groups[0].dropped == "a draw from both sides of the mean does not fit"


def test_rows_that_no_budget_allows_have_no_chance_and_the_note_counts_them():
    rewards, tokens = [0, 0, 1, 1, 1], [1, 1, 1, 1, 100]
    row = "1 row costs more than 50 tokens and has no chance"
    options = {"m": 4, "token_budget": 50}
    report = select(rewards, tokens, unbiased=True, **options).report
    assert report.groups[0].note == f"{row}: the gradient is that of the others"
    options["m"] = 2
    assert select(rewards, tokens, within="ht", **options).report.groups[0].note == row
    tokens = [1, 60, 1, 1, 100]
    report = select(rewards, tokens, m=4, cap_tokens=50, unbiased=True).report
    assert report.groups[0].note.startswith("2 rows cost more than 50 tokens and have no chance:")
    assert select(rewards, [1] * 5, unbiased=True, **options).report.groups[0].note == ""


def test_rows_at_the_mean_have_no_part_in_an_unbiased_choice():
    rewards = [0.0, 0.5, 0.5, 1.0]
    done = select(rewards, [1] * 4, m=4, unbiased=True)
    assert done.indices == (0, 3)
    assert done.weights == (0.5, 0.5)


def test_plain_choices_weigh_one():
    draw = random.Random(3)
    rewards = [draw.random() for _ in range(12)]
    for within in ("auto", "random", "cheapest"):
        assert set(select(rewards, [9] * 12, m=4, token_budget=40, within=within).weights) == {1.0}


# --- drawing at random under a budget


def test_random_rows_under_a_budget_keep_less_and_say_so():
    rewards, tokens = [0.0] * 12 + [1.0] * 12, list(range(10, 34))
    cheap = select(rewards, tokens, m=8, token_budget=100).report
    for seed in range(20):
        report = select(rewards, tokens, m=8, token_budget=100, within="random", seed=seed).report
        assert report.tokens_kept <= 100
        assert report.q_kept <= cheap.q_kept
        assert report.upper_bound == pytest.approx(cheap.q_kept)
        assert report.length_ratio > cheap.length_ratio
        assert "drawn rows" in report.method


def test_where_no_drawn_rows_fit_the_cheapest_are_taken():
    rewards, tokens = [0.0] * 6 + [1.0] * 6, [1, 50, 50, 50, 50, 50] * 2
    for seed in range(10):
        done = select(rewards, tokens, m=4, token_budget=45, within="ht", seed=seed)
        assert done.indices == (0, 6)
        assert done.weights == (1.0, 1.0)


@pytest.mark.parametrize("within", ["ht", "random"])
def test_where_the_cheapest_are_taken_for_drawn_rows_every_group_says_so(within):
    note = "drawn rows may not fit: the cheapest were kept, weights 1"
    options = {"m": 2, "token_budget": 100, "within": within, "seed": 3}
    done = select([0, 0, 1, 1], [1, 100, 1, 100], **options)
    assert (done.indices, done.weights) == ((0, 2), (1.0, 1.0))
    assert done.report.groups[0].note == note
    assert select([0, 0, 1, 1], [1, 2, 1, 2], **options).report.groups[0].note == ""
    options["within"] = "ht"
    twice = select([0, 0, 1, 1] * 2, [1, 100, 1, 100] * 2, groups="aaaabbbb", **options).report
    assert [group.note for group in twice.groups.values()] == [note, note]
