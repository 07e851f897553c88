import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl.group import Group
from agentrl.measure import distinct, summarize
from agentrl.message import AssistantTurn, ToolCall, ToolOutcome, Turn
from agentrl.task import ListTasks, Task
from agentrl.trajectory import Stop, Trajectory


def attempt(task, correct, stop=Stop.ANSWER, turns=()):
    reward = None if correct is None else float(correct)
    return Trajectory(task, 0, 0, (), turns, stop, reward=reward, correct=correct)


def group(name, *results):
    task = Task(name)
    return Group(task, tuple(attempt(task, c) for c in results))


def test_pass_at_k_is_the_unbiased_estimate():
    found = summarize([group("a", True, False, False, False)], 4)
    assert found.pass_at == {"1": 0.25, "2": 0.5, "4": 1.0}
    assert found.pass_all == {"1": 0.25, "2": 0.0, "4": 0.0}
    assert found.accuracy.mean == 0.25


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=7), min_size=1, max_size=4))
def test_pass_at_k_is_what_counting_every_choice_of_attempts_gives(tasks):
    k = max(map(len, tasks))
    found = summarize([group(f"t{i}", *row) for i, row in enumerate(tasks)], k)
    for name, told, all_of in (("any", found.pass_at, any), ("all", found.pass_all, all)):
        for j in map(int, told):
            choices = [list(itertools.combinations(row, j)) for row in tasks if len(row) >= j]
            shares = [sum(map(all_of, every)) / len(every) for every in choices]
            assert told[str(j)] == pytest.approx(sum(shares) / len(shares)), name


def test_pass_at_more_than_there_are_attempts_is_not_a_number():
    found = summarize([group("a", True, None), group("b", None, False)], 2)
    assert math.isnan(found.pass_at["2"])
    assert found.pass_at["1"] == 0.5


def test_attempts_that_cannot_be_scored_are_counted_but_no_failures():
    found = summarize([group("a", True, None), group("b", False, False)], 2)
    assert found.episodes == 4
    assert found.errors == 1
    assert math.isclose(found.accuracy.mean, 1 / 3)


def test_with_nothing_scored_there_is_no_accuracy():
    found = summarize([group("a", None)], 1)
    assert found.accuracy is None
    assert found.reward is None
    assert found.as_json()["accuracy"] is None


def test_truncated_episodes_and_failed_calls_are_counted():
    task = Task("a")
    turn = Turn(
        AssistantTurn("", (ToolCall("x", {}), ToolCall("y", {}))),
        (ToolOutcome("x", "1"), ToolOutcome("y", "no such tool", "unknown_tool")),
    )
    found = summarize([Group(task, (attempt(task, False, Stop.MAX_TURNS, (turn,)),))], 1)
    assert (found.truncated, found.turns, found.tool_calls, found.invalid_calls) == (1, 1, 2, 1)


def test_tasks_that_say_the_same_are_attempted_once():
    source = ListTasks([Task("a"), Task("a"), Task("b"), Task("c")])
    assert [t.prompt for t in distinct(source, 2, "env")] == ["a", "b"]
    with pytest.raises(UsageError, match="no tasks"):
        distinct(ListTasks([]), 5, "env")
