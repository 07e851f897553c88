"""Two tables of answers with what they are worth, and every miss with its reason."""

import json
from collections import Counter
from pathlib import Path

import pytest

from agentrl.graders import check_gold, final_answer, math_equal
from tests.algebra import Here

DATA = Path(__file__).parent / "data"

MISSES = {
    ("1,2,3", "\\boxed{1},\\boxed{2},\\boxed{3}"): "of several boxes the last one is the answer",
    ("\\frac{1}{2004!}", "\\frac{1}{2006!}"): "2006! is beyond the exact calculator: undecided",
}
FRESH_MISSES = {
    ("(-\\infty,-1)\\cup(1,\\infty)", "|x|>1"): "a relation for a union stays undecided",
    ("20", "20 years old"): "old is no unit",
    ("a=1,b=2", "(a,b)=(1,2)"): "several names in brackets are no name",
    ("\\{x : x>2\\}", "(2,\\infty)"): "sets by a condition aren't read, by algebra neither",
}


def rows(name):
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def judged(row):
    answer = final_answer(row["answer"]) if row["whole_response"] else row["answer"]
    return False if answer is None else math_equal(row["gold"], answer, runner=Here()).correct


@pytest.fixture(scope="module")
def verdicts():
    tables = "math_pairs.jsonl", "math_pairs_fresh.jsonl"
    return {name: [(row, judged(row)) for row in rows(name)] for name in tables}


@pytest.mark.parametrize(
    ("name", "known"), [("math_pairs.jsonl", MISSES), ("math_pairs_fresh.jsonl", FRESH_MISSES)]
)
def test_the_misses_are_those_that_have_a_reason(verdicts, name, known):
    missed = {
        (row["gold"], row["answer"])
        for row, correct in verdicts[name]
        if correct is not row["equal"]
    }
    assert missed == set(known)
    assert len(missed) <= 11


def test_no_wrong_answer_is_called_right(verdicts):
    wrong = [
        row
        for table in verdicts.values()
        for row, correct in table
        if correct is True and not row["equal"]
    ]
    assert wrong == []


def test_exact_comparison_decides_nearly_all(verdicts):
    tiers = Counter(
        math_equal(row["gold"], row["answer"], runner=Here()).tier
        for row in rows("math_pairs_fresh.jsonl")
    )
    assert tiers[2] < 0.1 * tiers.total()


def test_every_gold_that_has_an_answer_can_be_graded():
    golds = {row["gold"] for row in rows("math_pairs.jsonl") if row["equal"]}
    assert {gold: problem for gold in golds if (problem := check_gold(gold, runner=Here()))} == {}
