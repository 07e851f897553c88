"""Word problems with several tools: what they need, what distracts, and what they cannot be."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter

import numpy as np
import pytest

from agentrl.errors import UsageError
from agentrl.formats.hermes import parse
from agentrl.registry import make
from agentrl_environments._math_chains import ASIDES, MOST, SHAPES, chain_task
from agentrl_environments._math_warehouse import draw_facts

NUMBER = re.compile(r"\d+")


def play(env, task, *turns):
    env.reset(seed=0, options={"task": task})
    steps = [env.step(turn) for turn in turns]
    end = env.end
    env.close()
    return steps, end


def called(tool, **arguments):
    return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"


def calls_of(task):
    return [call for text in task.reference for call in parse(text).calls]


@pytest.mark.parametrize("level", SHAPES)
@pytest.mark.parametrize("calls", range(MOST + 1))
def test_a_reference_earns_the_reward_with_exactly_the_calls_that_are_needed(level, calls):
    env = make("tool_math", difficulty=level, calls=calls)
    for split in ("train", "test"):
        for task in (env.task_source(split)[i] for i in range(8)):
            steps, end = play(env, task, *task.reference)
            assert end.reward == 1.0, task
            assert len(calls_of(task)) == task.meta["calls"]
            assert calls in (0, task.meta["calls"])
            news = [m for step in steps for m in step[0] if m["role"] == "tool"]
            assert len(news) == task.meta["calls"]


@pytest.mark.slow
@pytest.mark.parametrize("level", SHAPES)
def test_every_reference_of_the_test_split_earns_the_reward(level):
    env = make("tool_math", difficulty=level)
    source = env.task_source("test")
    numbers = Counter()
    for task in (source[i] for i in range(len(source))):
        _, end = play(env, task, *task.reference)
        assert end.reward == 1.0, task
        numbers[task.meta["calls"]] += 1
    assert set(numbers) == set(range(1, MOST + 1))
    assert max(numbers.values()) < 1.5 * min(numbers.values())


@pytest.mark.parametrize("level", SHAPES)
def test_what_the_calculator_needs_is_not_in_the_prompt(level):
    rng = np.random.default_rng(0)
    for task in (chain_task(rng, level) for _ in range(200)):
        said = set(NUMBER.findall(task.prompt))
        assert task.answer not in said
        for call in calls_of(task):
            expression = call.arguments.get("expression", "")
            assert not expression or not set(NUMBER.findall(expression)) <= said, task


def test_each_order_of_a_chain_is_known_only_after_the_one_before():
    rng = np.random.default_rng(0)
    for task in (chain_task(rng, "chain", 8) for _ in range(50)):
        orders = [c.arguments["number"] for c in calls_of(task) if c.name == "order"]
        said = set(NUMBER.findall(task.prompt))
        assert len(set(orders)) == len(orders) >= 3
        assert [str(order) in said for order in orders] == [True] + [False] * (len(orders) - 1)


def test_no_fact_is_looked_up_twice():
    rng = np.random.default_rng(0)
    for level in SHAPES:
        for task in (chain_task(rng, level, MOST) for _ in range(100)):
            asked = [(call.name, *call.arguments.items()) for call in calls_of(task)]
            assert len(set(asked)) == len(asked)


def test_asides_are_told_where_they_are_asked_for():
    rng = np.random.default_rng(0)
    heads = [re.escape(text).replace(r"\{", "{").replace(r"\}", "}") for text in ASIDES]
    patterns = [re.compile(re.sub(r"\{\w+\}", r"\\w+", head)) for head in heads]
    seen = set()
    for level, some in (("tools", {False}), ("chain", {False}), ("distract", {True})):
        tasks = [chain_task(rng, level) for _ in range(100)]
        told = [[i for i, p in enumerate(patterns) if p.search(t.prompt)] for t in tasks]
        assert {bool(found) for found in told} == some, level
        assert {"asides" in task.meta["tags"] for task in tasks} == some
        seen |= {i for found in told for i in found}
    assert seen == set(range(len(ASIDES)))


def test_levels_offer_their_tools_and_the_default_keeps_the_calculator_alone():
    def offered(**options):
        return {s["function"]["name"] for s in make("tool_math", **options).tool_schemas()}

    useful = {"calculator", "order", "price", "weight", "distance", "rate"}
    assert offered() == offered(difficulty="hard") == {"calculator"}
    assert offered(difficulty="tools") == offered(difficulty="chain") == useful
    for level in ("distract", "steps"):
        assert offered(difficulty=level) == useful | {"stock", "weather", "age"}


def test_the_default_is_the_same_as_ever():
    env = make("tool_math")
    source = env.task_source("test")
    texts = [json.dumps(env.tool_schemas()), env.system_prompt, str(env.max_turns)]
    texts += [f"{task.prompt}\n{task.answer}" for task in (source[i] for i in range(60))]
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == DEFAULT


DEFAULT = "8fcd8c906a75ce00230d3c7723c937936399a4d9468865963b7dab7fa16eb42c"


def test_tools_look_up_the_facts_of_the_task_and_refuse_in_words():
    env = make("tool_math", difficulty="distract")
    first, second = (env.task_source("train")[i] for i in (0, 1))
    for task in (first, second, first):
        [(news, *_)], _ = play(env, task, called("price", item="tea"))
        assert news[-1]["content"] == str(task.meta["facts"]["price"]["tea"])
    [(news, *_)], _ = play(env, first, called("price", item="gold"))
    assert "nothing about 'gold'" in news[-1]["content"]
    assert "salt" in news[-1]["content"]
    [(news, *_)], _ = play(env, first, called("order", number=-7))
    assert "nothing about '-7'" in news[-1]["content"]


def test_calls_that_cannot_help_are_counted():
    env = make("tool_math", difficulty="distract")
    task = env.task_source("train")[0]
    asked = called("age", name="Ann"), called("price", item="tea"), called("weather", town="Arden")
    env.reset(options={"task": task})
    for turn in asked:
        env.step(turn)
    metrics = [dict(outcome.metrics) for turn in env.turns for outcome in turn.outcomes]
    env.close()
    assert metrics == [{"distracted": 1.0}, {}, {"distracted": 1.0}]


def test_splits_share_no_content_and_positions_are_stable():
    env = make("tool_math", difficulty="steps")
    train, test = env.task_source("train"), env.task_source("test")
    assert not {train[i].hash for i in range(100)} & {test[i].hash for i in range(100)}
    assert train[7] == make("tool_math", difficulty="steps").task_source("train")[7]
    assert {train[i].meta["difficulty"] for i in range(20)} == {"steps"}


def test_answers_are_too_many_to_guess():
    rng = np.random.default_rng(0)
    for level in SHAPES:
        answers = Counter(chain_task(rng, level).answer for _ in range(300))
        assert max(answers.values()) <= 3
        assert min(map(int, answers)) > 100


def test_facts_are_drawn_from_the_generator_alone():
    one, same, other = (draw_facts(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"difficulty": "chian"}, "Did you mean chain"),
        ({"difficulty": "chain", "calls": 9}, "Give 1 to 8"),
        ({"difficulty": "chain", "calls": -1}, "Give 1 to 8"),
        ({"calls": 3}, "mixed problems need one"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, problem):
    with pytest.raises(UsageError, match=problem):
        make("tool_math", **options)
