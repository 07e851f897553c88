"""Planning loses nothing, cuts nothing and stays under the cap."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.plan import plan

LENGTHS = st.lists(st.integers(1, 300), max_size=60)
CAPS = st.integers(1, 2000)


@given(LENGTHS, CAPS)
def test_every_row_is_in_exactly_one_micro_batch(lengths: list[int], cap: int) -> None:
    rows = [row for batch in plan(lengths, cap) for row in batch.rows]
    assert sorted(rows) == list(range(len(lengths)))


@given(LENGTHS, CAPS)
def test_the_cap_counts_padding_and_only_a_longer_row_exceeds_it(
    lengths: list[int], cap: int
) -> None:
    for batch in plan(lengths, cap):
        longest = max(lengths[row] for row in batch.rows)
        assert batch.tokens_padded == len(batch.rows) * longest
        assert batch.tokens_padded <= cap or len(batch.rows) == 1


@given(LENGTHS, CAPS)
def test_rows_go_from_long_to_short(lengths: list[int], cap: int) -> None:
    order = [lengths[row] for batch in plan(lengths, cap) for row in batch.rows]
    assert all(left >= right for left, right in pairwise(order))


def fewest(lengths: list[int], cap: int) -> int:
    """Micro-batches of the best cut of the sorted rows, by trying all of them."""
    ranked = sorted(lengths)
    best = [0]
    for end in range(1, len(ranked) + 1):
        ways = [
            best[start] + 1
            for start in range(end)
            if end - start == 1 or (end - start) * ranked[end - 1] <= cap
        ]
        best.append(min(ways))
    return best[-1]


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(1, 200))
def test_no_cut_of_the_sorted_rows_needs_fewer_micro_batches(lengths: list[int], cap: int) -> None:
    assert len(plan(lengths, cap)) == fewest(lengths, cap)


def test_rows_of_equal_length_keep_their_order() -> None:
    assert [batch.rows for batch in plan([5, 7, 5, 7], 14)] == [(1, 3), (0, 2)]


def test_a_row_above_the_cap_is_alone_and_whole() -> None:
    assert [(b.rows, b.tokens_padded) for b in plan([3, 50, 3], 10)] == [((1,), 50), ((0, 2), 6)]


def test_no_rows_need_no_micro_batch() -> None:
    assert plan([], 10) == ()


@pytest.mark.parametrize(("lengths", "cap"), [([1], 0), ([2, 0], 10)])
def test_nonsense_is_refused(lengths: list[int], cap: int) -> None:
    with pytest.raises(ValueError, match=r"at least one token|row 1 is empty"):
        plan(lengths, cap)


def test_planning_needs_no_torch() -> None:
    code = "import agentrl.plan, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
