import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl.sampler import draw
from agentrl.state import Standing
from agentrl.task import ListTasks, Task


def source(size):
    return ListTasks([Task(f"task {i}") for i in range(size)])


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 5))
def test_tasks_of_a_step_are_distinct_and_an_epoch_meets_every_task_once(size, count, seed):
    count = min(count, size)
    standing = Standing()
    steps = [draw(source(size), standing, seed=seed, count=count).tasks for _ in range(size)]
    assert all(len({t.hash for t in step}) == count for step in steps)
    if size % count == 0:
        first_epoch = [t.hash for step in steps[: size // count] for t in step]
        assert len(set(first_epoch)) == size


def test_going_on_from_a_saved_cursor_draws_what_an_unbroken_run_would(tmp_path):
    unbroken = Standing()
    straight = [draw(source(10), unbroken, seed=3, count=3).tasks for _ in range(6)]
    first = Standing()
    before = [draw(source(10), first, seed=3, count=3).tasks for _ in range(2)]
    first.save(tmp_path)
    second = Standing()
    second.load(tmp_path)
    after = [draw(source(10), second, seed=3, count=3).tasks for _ in range(4)]
    assert before + after == straight


def test_seeds_order_tasks_differently():
    one = draw(source(100), Standing(), seed=0, count=10)
    two = draw(source(100), Standing(), seed=1, count=10)
    assert one != two


def test_too_few_different_tasks_is_said_not_looped_on():
    same = ListTasks([Task("one")] * 5)
    with pytest.raises(UsageError, match="only 1 different"):
        draw(same, Standing(), seed=0, count=2)
