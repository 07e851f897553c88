"""Questions over a made-up world: walked again from the words of its documents alone."""

from __future__ import annotations

import asyncio
import re
import tracemalloc
from itertools import pairwise

import pytest

from agentrl.errors import UsageError
from agentrl.registry import make, resolve
from agentrl_environments._calls import called
from agentrl_environments._qa_tasks import HOPS
from agentrl_environments._qa_world import RELATIONS, documents, world
from agentrl_environments.search_qa import corpus
from agentrl_tools.search import Index

NAME = r"(?:The )?[A-Z]\w+(?: [A-Z]\w+)*(?: of [A-Z]\w+)?"
TOLD = {
    "birthplace": (rf"born in ({NAME})", rf"a native of ({NAME})"),
    "school": (rf"studied at ({NAME})", rf"a graduate of ({NAME})"),
    "teacher": (rf"was taught by ({NAME})", rf"learned everything from ({NAME})"),
    "employer": (rf"works for ({NAME})",),
    "mayor": (rf"the mayor is ({NAME})", rf"({NAME}) is mayor"),
    "twin town": (rf"twin town is ({NAME})", rf"keeps a twin town, ({NAME})"),
    "founder": (rf"founded by ({NAME})", rf"goes back to its founder ({NAME})"),
    "head": (rf"({NAME}) is the head", rf"the head is ({NAME})"),
    "seat": (rf"moved its seat from {NAME} to ({NAME})", rf"the seat is in ({NAME})"),
    "town": (rf"stands in ({NAME})", rf"a school of ({NAME})"),
    "rector": (rf"the rector is ({NAME})", rf"({NAME}) took over as rector"),
    "author": (rf"written by ({NAME})", rf"a work of ({NAME})"),
    "publisher": (rf"published by ({NAME})", rf"first sold by ({NAME})"),
    "scene": (rf"set in ({NAME})", rf"its story takes place in ({NAME})"),
    "born": (r"year of birth (\d+)", r"came into the world in (\d+)"),
    "river": (rf"lies on the river ({NAME})", rf"the river ({NAME}) runs"),
    "charter": (r"charter of (\d+)", r"charter since (\d+)"),
    "founded": (r"founded in (\d+)", r"in business since (\d+)"),
    "open": (r"opened in (\d+)", r"has taught since (\d+)"),
}
ASKED = (
    (r"In which year was (.+) (born|founded)\?", 2),
    (r"On which (river) does (.+) lie\?", 1),
    (r"In which year did (.+) get its (charter)\?", 2),
    (r"In which year did (.+) (open)\?", 2),
)


@pytest.fixture(scope="module")
def texts():
    """Today's documents by the name of what they tell of."""
    return {d.id: d.text for d in documents() if not d.text.startswith("Yearbook")}


def read(text, relation):
    """What a document says of a relation."""
    (found,) = [m[1] for pattern in TOLD[relation] if (m := re.search(rf"[:;] .*?{pattern}", text))]
    return found


def meant(phrase, texts):
    """What a noun phrase stands for, by the documents."""
    match = re.fullmatch(r"the ([a-z ]+?) of (.+)", phrase)
    return read(texts[meant(match[2], texts)], match[1]) if match else phrase


def reader(question, texts):
    """The answer, from the words of the question and the documents."""
    for pattern, place in ASKED:
        if match := re.fullmatch(pattern, question):
            return read(texts[meant(match[3 - place], texts)], match[place])
    return meant(re.fullmatch(r"What is the name of (.+)\?", question)[1], texts)


def play(env, task, *turns):
    """Results of the tools, reward and info."""
    env.reset(seed=0, options={"task": task})
    for turn in turns:
        _, reward, *_, info = env.step(turn)
    return [o.content for turn in env.turns for o in turn.outcomes], reward, info


@pytest.mark.parametrize("count", [500, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_reference_of_a_test_task_finds_each_document_and_earns_one(texts, count):
    env = make("search_qa")
    source = env.task_source("test")

    async def main():
        for i, task in enumerate(source[i] for i in range(count)):
            await env.areset(options={"task": task})
            for turn, name in zip(task.reference, [*task.meta["stops"], ""], strict=True):
                *_, info = await env.astep(turn)
                results = env.turns[-1].outcomes
                assert not results or texts[name] in results[0].content
            assert (env.end.reward, env.end.correct, info["stop"]) == (1.0, True, "answer")
            if i < 200:
                await env.areset(options={"task": task})
                await env.astep("")
                assert (env.end.reward, env.end.correct) == (0.0, False)
        await env.arelease()

    asyncio.run(main())


def test_a_reader_of_the_documents_comes_to_the_same_answers(texts):
    source = make("search_qa").task_source("train")
    tasks = [source[i] for i in range(1500)]
    for task in tasks:
        assert reader(task.prompt, texts) == task.answer, task.prompt
        assert task.answer not in task.prompt
    assert {r for task in tasks for r in task.meta["relations"]} == {
        r.name for relations in RELATIONS.values() for r in relations
    }


def test_a_question_needs_as_many_documents_as_its_difficulty_says(texts):
    for level, hops in HOPS.items():
        source = make("search_qa", difficulty=level).task_source("train")
        for task in (source[i] for i in range(200)):
            assert task.meta["difficulty"] == level
            assert task.meta["tags"] == [f"hops_{hops}"]
            assert len(set(task.meta["stops"])) == hops == len(task.reference) - 1
            # Only the last of them holds the answer, so none can be left out.
            holding = [stop for stop in task.meta["stops"] if task.answer in texts[stop]]
            assert holding[-1:] == task.meta["stops"][-1:]


def test_every_document_is_found_by_its_name():
    index = corpus()
    for name in world():
        assert name in [hit.id for hit in index.query(name, 3)]


def test_a_name_has_lookalikes_and_yearbooks_tell_what_holds_no_longer(texts):
    old = [d for d in documents() if d.text.startswith("Yearbook")]
    assert len(old) > 300
    wrong = 0
    for document in old:
        thing = world()[document.id.rpartition(" (")[0]]
        assert not any(thing.facts[name] in document.text for name in thing.old)
        wrong += any(value in document.text for value in thing.old.values())
    assert wrong == len(old)
    names = sorted(world())
    letters = [
        sum(a != b for a, b in zip(one, other, strict=True))
        for one, other in pairwise(names)
        if len(one) == len(other)
    ]
    assert letters.count(1) > 500


def test_the_corpus_is_built_once_and_small():
    assert make("search_qa").index is make("search_qa", results=5).index
    tracemalloc.start()
    index = Index(documents())
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(index.documents) > len(world())
    assert held < 20_000_000


def test_only_exactly_the_answer_earns_a_reward():
    env = make("search_qa")
    task = next(t for t in map(env.task_source("train").__getitem__, range(99)) if " " in t.answer)
    gold = task.answer
    for text in (
        f"Answer: {gold}",
        f"I looked.\nAnswer: **{gold.upper()}**.",
        f"Answer: The {gold}",
    ):
        assert play(env, task, text)[1] == 1.0, text
    for text in (
        gold,
        f"Answer: {gold} or Elvin",
        f"Answer: {gold[:-1]}",
        "Answer:",
        "Answer: the",
    ):
        assert play(env, task, text)[1] == 0.0, text
    env.close()


def test_a_search_answers_in_words_and_notes_what_was_asked_before():
    env = make("search_qa")
    task = env.task_source("train")[0]
    queries = ["Glass", "glass!", "xqzw", "", "?!", "w" * 201]
    results, *_ = play(env, task, *(called("search", query=query) for query in queries))
    assert results[0] == results[1]
    assert len(results[0].splitlines()) == 3
    assert results[2] == "Nothing was found. Try other words."
    assert [text.split(":")[0] for text in results[3:]] == ["search"] * 3
    metrics = [dict(turn.outcomes[0].metrics) for turn in env.turns]
    assert metrics[:3] == [
        {"repeated": 0.0, "found": 3.0}, {"repeated": 1.0, "found": 3.0},
        {"repeated": 0.0, "found": 0.0},
    ]  # fmt: skip
    play(env, task, called("search", query="Glass"))
    assert env.turns[0].outcomes[0].metrics["repeated"] == 0.0
    env.close()


def test_splits_share_nothing_and_positions_are_stable():
    train, test = (resolve("search_qa").tasks(split) for split in ("train", "test"))
    assert (len(train), len(test)) == (50_000, 2_000)
    ours, theirs = ({source[i].hash for i in range(1000)} for source in (train, test))
    assert not ours & theirs
    assert len(ours) > 980
    assert train[7] == make("search_qa").task_source("train")[7]


def test_options_out_of_range_are_refused():
    with pytest.raises(UsageError, match="Did you mean hard"):
        make("search_qa", difficulty="hrad")
    with pytest.raises(UsageError, match="results is 2"):
        make("search_qa", results=2)
