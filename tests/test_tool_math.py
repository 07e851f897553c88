import json

import numpy as np
import pytest

from agentrl.errors import UsageError
from agentrl.exact import exact_value, parse_number
from agentrl.message import AssistantTurn
from agentrl.registry import make, resolve
from agentrl_environments._math_tasks import LEVELS, math_task


def play(env, task, *turns):
    env.reset(seed=0, options={"task": task})
    for turn in turns:
        observed, reward, *_, info = env.step(turn)
    env.close()
    return observed, reward, info


@pytest.fixture
def env():
    return make("tool_math")


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_reference_solution_of_every_task_earns_one(env, split):
    for task in (env.task_source(split)[i] for i in range(100)):
        _, reward, info = play(env, task, *task.reference)
        assert (reward, info["stop"], info["correct"]) == (1.0, "answer", True)


def test_the_calculator_answers_and_refuses_in_words(env):
    task = env.task_source("test")[0]
    call = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "%s"}}\n</tool_call>'
    observed, *_ = play(env, task, call % "2*(3+4)")
    assert observed[-1]["content"] == "14"
    observed, *_ = play(env, task, call % "2*(3+")
    assert observed[-1]["role"] == "tool"
    assert "calculator" in observed[-1]["content"]


def test_only_the_number_itself_earns_a_reward(env):
    task = env.task_source("train")[3]
    expression = task.meta["expression"]
    wrong = [
        f"Answer: {expression}",
        f"Answer: {expression} = {task.answer}",
        f"Answer: {2 * parse_number(task.answer)}/2",
        f"Answer: {task.answer}1",
        f"Answer: ~{task.answer}",
        f"Answer: -{task.answer}",
        f"Answer: {task.answer} or {task.answer}1",
        "Answer:",
        "",
    ]
    for text in wrong:
        assert play(env, task, text)[1] == 0.0, text
    for text in (f"Answer: {task.answer}", f"It is {task.answer}.", f"Answer: {task.answer}.0"):
        if text.count(".") < 2:
            assert play(env, task, text)[1] == 1.0, text


def test_a_turn_that_was_cut_or_still_calls_gives_no_answer(env):
    task = env.task_source("train")[3]
    said = f"so it may be {task.answer}"
    assert play(env, task, AssistantTurn(said))[1] == 1.0
    _, reward, info = play(env, task, AssistantTurn(said, finish_reason="length"))
    assert (reward, info["stop"], info["correct"]) == (0.0, "max_tokens", False)
    call = f"{said}\n{task.reference[0]}"
    _, reward, info = play(env, task, *[call] * env.max_turns)
    assert (reward, info["stop"]) == (0.0, "max_turns")


@pytest.mark.parametrize("level", LEVELS)
def test_answers_are_exact_and_too_large_to_guess(level):
    rng = np.random.default_rng(0)
    answers = []
    for _ in range(300):
        task = math_task(rng, level)
        value = exact_value(task.meta["expression"])
        assert value == parse_number(task.answer)
        assert value > 0
        assert "/" not in task.answer
        answers.append(task.answer)
    assert np.median([len(a) for a in answers]) >= 4
    assert len(set(answers)) > 280


def test_every_wording_can_be_filled_and_they_are_many():
    wordings = [w for level in LEVELS.values() for w in level[0]]
    assert len(wordings) >= 25
    assert len({w.text for w in wordings}) == len(wordings)
    rng = np.random.default_rng(0)
    seen = {math_task(rng, level).prompt for level in LEVELS for _ in range(300)}
    heads = [w.text.split("{")[0] for w in wordings]
    assert all(any(p.startswith(head) for p in seen) for head in heads)


def test_splits_share_no_content_and_positions_are_stable():
    train, test = (resolve("tool_math").tasks(split) for split in ("train", "test"))
    ours = {train[i].hash for i in range(500)}
    theirs = {test[i].hash for i in range(500)}
    assert not ours & theirs
    assert {train[i].split for i in range(50)} == {"train"}
    assert {test[i].split for i in range(50)} == {"test"}
    assert train[7] == resolve("tool_math").tasks("train")[7]
    assert (len(train), len(test)) == (100_000, 2_000)


def test_difficulty_chooses_the_problems():
    for level in LEVELS:
        source = make("tool_math", difficulty=level).task_source("train")
        assert {source[i].meta["difficulty"] for i in range(20)} == {level}
    mixed = make("tool_math").task_source("train")
    assert {mixed[i].meta["difficulty"] for i in range(60)} == set(LEVELS)
    with pytest.raises(UsageError, match="Did you mean hard"):
        make("tool_math", difficulty="hrad")


def test_a_reference_calls_the_calculator_with_the_whole_expression():
    task = resolve("tool_math").tasks("train")[0]
    call = json.loads(task.reference[0].removeprefix("<tool_call>").removesuffix("</tool_call>"))
    assert call == {"name": "calculator", "arguments": {"expression": task.meta["expression"]}}
    assert task.reference[1] == f"Answer: {task.answer}"
