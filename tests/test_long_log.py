"""Logs of any length: answered by a reader that knows no facts, and by the references."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl.registry import make, resolve
from agentrl_environments._calls import answered, called
from agentrl_environments._log_tasks import LEVELS, make_question
from agentrl_environments._log_text import shape_of, write_log

NAME = r"[A-Z]\d{3}"
KINDS = {"find", "count", "total", "last", "then", "compare", "chain"}


def play(env, task, *turns):
    """Results of the tools, reward and info."""
    env.reset(seed=0, options={"task": task})
    for turn in turns:
        _, reward, *_, info = env.step(turn)
    return [o.content for turn in env.turns for o in turn.outcomes], reward, info


@pytest.mark.parametrize("count", [500, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_reference_of_a_test_task_earns_one_and_no_answer_earns_nothing(count):
    env = make("long_log")
    source = env.task_source("test")

    async def main():
        for i, task in enumerate(source[i] for i in range(count)):
            for turns, due in ((task.reference, 1.0), (("",), 0.0))[: 1 + (i < 200)]:
                await env.areset(options={"task": task})
                for turn in turns:
                    *_, info = await env.astep(turn)
                assert (env.end.reward, info["stop"]) == (due, "answer"), task.prompt
                assert env.end.correct is bool(due)
        await env.arelease()

    asyncio.run(main())


@pytest.mark.parametrize(
    "options",
    [
        {"grep": False},
        {"tokens": 1000, "page": 300},
        {"tokens": 32_000, "page": 32_000},
        {"needles": 1},
        {"needles": 12, "difficulty": "hard"},
        {"tokens": 1000, "needles": 12},
    ],
)
def test_references_hold_whatever_the_options(options):
    env = make("long_log", **options)
    source = env.task_source("train")
    for task in (source[i] for i in range(40)):
        assert play(env, task, *task.reference)[1] == 1.0, task.prompt
    env.close()


def reader(prompt, lines):
    """The answer from the words of a question and the lines alone."""
    rows = [line.partition(" ") for line in lines]
    said = lambda pattern, until="99": [  # noqa: E731
        m.group(1) for at, _, text in rows if at <= until and (m := re.fullmatch(pattern, text))
    ]
    names = re.findall(NAME, prompt)
    first = names[0]
    if "seal" in prompt:
        return ", ".join(said(rf"crate {name} got seal (\d+)")[-1] for name in names)
    if "How often" in prompt:
        codes = said(rf"pump {first} tripped with code (\d+)")
        return f"{len(codes)}, {codes[-1]}"
    if "litres" in prompt:
        return str(sum(map(int, said(rf"tank {first} lost (\d+) litres"))))
    if "bay" in prompt:
        at = re.search(r"\d\d:\d\d", prompt)
        return said(rf"cart {first} moved to bay (\d+)", at[0] if at else "99")[-1]
    if "far apart" in prompt:
        one, other = (max(map(int, said(rf"gauge {name} showed (\d+)"))) for name in names)
        return str(abs(one - other))
    truck = said(rf"crate {first} put on truck ({NAME})")[-1]
    (gate,) = said(rf"truck {truck} left by gate (\d+)")
    return gate


@given(
    st.integers(1_000_000, 9_999_999),
    st.sampled_from(list(LEVELS)),
    st.integers(0, 12),
    st.integers(1000, 8000),
)
def test_a_reader_of_the_whole_log_comes_to_the_same_answer(number, level, needles, tokens):
    question, shape = make_question(number, level, needles), shape_of(tokens, 500)
    lines = write_log(number, question.facts, question.names, shape)
    assert len(lines) == shape.lines
    assert [line[:5] for line in lines] == sorted(line[:5] for line in lines)
    assert reader(question.words, lines) == question.answer
    for i, fact in enumerate(question.facts):
        page = shape.page_of(i, question.facts)
        inside = lines[(page - 1) * shape.page : page * shape.page]
        assert sum(line.endswith(fact.text) for line in inside) >= 1


def test_a_question_is_the_same_at_every_length_and_answers_are_no_guess():
    short, long = (make("long_log", tokens=t).task_source("train") for t in (1000, 32_000))
    assert [short[i].hash for i in range(50)] == [long[i].hash for i in range(50)]
    tasks = [short[i] for i in range(600)]
    answers = [task.answer for task in tasks]
    assert max(answers.count(answer) for answer in answers) <= 6
    assert not any(re.search(rf"\b{task.answer}\b", task.prompt) for task in tasks)
    assert {tag for task in tasks for tag in task.meta["tags"]} == KINDS
    assert {task.meta["difficulty"] for task in tasks} == set(LEVELS)
    assert len({task.hash for task in tasks}) == 600


@pytest.mark.parametrize("tokens", [1000, 4000, 32_000])
def test_without_a_search_a_reference_reads_about_as_much_as_was_asked_for(tokens):
    env = make("long_log", tokens=tokens, grep=False)
    task = env.task_source("train")[0]
    results, *_ = play(env, task, *task.reference)
    assert [s["function"]["name"] for s in env.tool_schemas()] == ["read"]
    assert 1.4 * tokens < len("\n".join(results)) < 2.1 * tokens
    assert "left out" not in "".join(results)
    env.close()


def test_only_exactly_the_numbers_earn_a_reward():
    env = make("long_log", difficulty="medium")
    source = env.task_source("train")
    one = next(t for t in map(source.__getitem__, range(99)) if t.meta["tags"] == ["total"])
    two = next(t for t in map(source.__getitem__, range(99)) if t.meta["tags"] == ["count"])
    gold = one.answer
    right = [
        f"Answer: {gold}",
        f"It is {gold}.",
        f"answer: **{int(gold):,}**",
        f"\\boxed{{{gold}}}",
    ]
    for text in right:
        assert play(env, one, text)[1] == 1.0, text
    for text in (
        f"Answer: {gold} or 5",
        f"Answer: {gold}, 5",
        f"Answer: -{gold}",
        "Answer:",
        gold[1:],
    ):
        assert play(env, one, text)[1] == 0.0, text
    assert play(env, two, answered(two.answer.replace(", ", ",")))[1] == 1.0
    assert play(env, two, answered(", ".join(reversed(two.answer.split(", ")))))[1] == 0.0
    env.close()


def test_a_search_names_pages_and_says_what_it_cannot_look_for():
    env = make("long_log", tokens=2000, page=500)
    task = env.task_source("train")[0]
    name = task.meta["names"][0]
    asked = [name, name.lower(), f"*{name[:2]}*{name[2:]}*", "no such text", "", "**", "x" * 101]
    results, *_ = play(env, task, *(called("grep", text=text) for text in asked))
    assert re.fullmatch(r"(page \d: \d+\n?)+", results[0])
    assert results[0] == results[1] == results[2]
    assert results[3] == "No line has this text."
    assert [text.split(":")[0] for text in results[4:]] == ["grep"] * 3
    results, *_ = play(env, task, *(called("read", page=p) for p in (0, 5, 10**30, -1)))
    assert {text[:4] for text in results} == {"read"}
    assert play(env, task, called("read", page=1))[0] == play(env, task, called("read", page=1))[0]
    env.close()


def test_a_search_full_of_stars_is_answered():
    env = make("long_log", tokens=32_000)
    task = env.task_source("train")[0]
    results, *_ = play(env, task, called("grep", text="a*" * 50), called("grep", text="0"))
    assert results[0] == "No line has this text."
    assert results[1].count("\n") == env.log.shape.pages - 1
    env.close()


def test_episodes_side_by_side_read_their_own_logs():
    one, other = make("long_log"), make("long_log")
    first, second = (one.task_source("train")[i] for i in (0, 1))
    alone = [play(one, task, called("read", page=1))[0] for task in (first, second)]
    one.reset(options={"task": first})
    other.reset(options={"task": second})
    for env in (one, other):
        env.step(called("read", page=1))
    assert [[env.turns[0].outcomes[0].content] for env in (one, other)] == alone
    one.close()
    assert one.log.lines == []
    other.close()


def test_splits_share_nothing_and_positions_are_stable():
    train, test = (resolve("long_log").tasks(split) for split in ("train", "test"))
    assert (len(train), len(test)) == (100_000, 2_000)
    assert not {train[i].hash for i in range(300)} & {test[i].hash for i in range(300)}
    assert train[7] == make("long_log").task_source("train")[7]


def test_options_out_of_range_are_refused():
    with pytest.raises(UsageError, match="Did you mean hard"):
        make("long_log", difficulty="hrad")
    for option in ({"tokens": 99}, {"tokens": 10**6}, {"page": 1}, {"needles": 13}):
        with pytest.raises(UsageError, match=f"{next(iter(option))} is"):
            make("long_log", **option)
