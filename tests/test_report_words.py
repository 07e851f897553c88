"""Numbers keep what matters of them."""

from __future__ import annotations

import math

import pytest

from agentrl.report import words

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((0.0, "0%"), (1.0, "100%"), (1.3, "130%"), (0.5, "50%")),
        *((0.004, "0.40%"), (0.996, "99.60%"), (None, DASH), (math.nan, DASH)),
    ],
)
def test_a_share_near_an_end_is_not_rounded_to_it(value, said):
    assert words.percent(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((0.0, "0.000"), (0.25, "0.250"), (1e-9, f"1.0e{MINUS}09"), (-0.5, f"{MINUS}0.500")),
        *((2e7, "2.0e+07"), (None, DASH), (math.inf, DASH)),
    ],
)
def test_a_small_number_is_not_nothing(value, said):
    assert words.number(value) == said


def test_amounts_sizes_and_lists_are_short():
    assert [words.amount(v) for v in (7, 1_500, 2.5e6, 3e9)] == ["7", "1.5k", "2.5M", "3.0G"]
    sizes = [words.size(v) for v in (12, 2048, 1.5 * 2**20, 3 * 2**30)]
    assert sizes == ["12 B", "2 KiB", "1.5 MiB", "3 GiB"]
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert (words.listed(["a"]), words.listed([])) == ("a", "")
    assert (words.several(1, "step"), words.several(1200, "step")) == ("1 step", "1,200 steps")
