import pytest

from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, UsageError
from agentrl.supply import supply
from agentrl.task import ListTasks, Task


def giving(tasks):
    class Env(ToolEnv):
        def task_source(self, split):
            return tasks()

    return Env()


def tasks_of(*prompts):
    return ListTasks([Task(prompt) for prompt in prompts])


def ending():
    raise SystemExit(0)


def faulty():
    raise EnvironmentFault("no disk")


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (lambda: None, "returned a NoneType"),
        (lambda: (Task("a") for _ in range(3)), "returned a generator"),
        (lambda: {}["a"], "KeyError"),
        (ending, "SystemExit"),
        (faulty, "no disk"),
    ],
)
def test_what_is_no_source_of_tasks_is_refused(tasks, said):
    with pytest.raises(UsageError, match=said):
        supply(giving(tasks), "train", "mine.py:Env")


def test_what_is_no_task_is_refused_when_it_is_asked_for():
    found = supply(giving(lambda: ["a"]), "train", "mine.py:Env")
    with pytest.raises(UsageError, match="train task 0 is a str"):
        found[0]


def test_a_plain_list_is_a_source():
    found = supply(giving(lambda: [Task("a"), Task("b")]), "train", "mine.py:Env")
    assert [found[i].prompt for i in range(len(found))] == ["a", "b"]


def test_a_held_out_task_among_those_of_training_is_refused():
    with pytest.raises(UsageError, match="train task 1 is among the held-out"):
        supply(giving(lambda: tasks_of("a", "b")), "train", "mine.py:Env", [Task("b")])


def test_tasks_that_are_not_held_out_pass():
    found = supply(giving(lambda: tasks_of("a", "b")), "train", "mine.py:Env", [Task("c")])
    assert len(found) == 2
