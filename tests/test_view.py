"""What `agentrl view` reads out of a run."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.cli.chosen_again import chooser
from agentrl.errors import UsageError
from agentrl.record import RunFolder
from agentrl.view.book import Reader, write
from agentrl.view.chapter import read_chapter
from agentrl.view.story import Shelf
from agentrl.view.transcript import cards
from tests.steered import call
from tests.viewed import config_of, data_of, played, tasks_of, write_run, write_step


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Scripted runs that are only read."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "a", steps=2, token_budget=6000)
    write_run(root / "b", steps=1, rule="max_reward", tokens=False)
    return root


def story_of(path, **options):
    return Shelf(chooser).story(str(path), **options)


# Chapters and stories


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"token_budget": 3000},
        {"token_budget": 4000, "within": "cheapest"},
        {"rule": "percentile"},
        {"truncated": "zero", "attention_length": 500, "token_budget": 9000},
    ],
)
def test_a_step_s_choice_is_made_again_as_the_run_made_it(tmp_path, asked):
    write_run(tmp_path / "run", steps=2, **asked)
    for chapter in story_of(tmp_path / "run").chapters:
        if chapter.kind == "step":
            assert chapter.problem == ""
            assert chapter.choice.same
            assert chapter.choice.budget == asked.get("token_budget")
            assert all(len(g.why) == len(g.members) == 8 for g in chapter.groups)


def test_a_choice_that_cannot_be_made_again_leaves_what_was_recorded(tmp_path):
    path = write_run(tmp_path / "run", steps=1)
    config = (path / "config.toml").read_text()
    (path / "config.toml").write_text(config.replace("token_budget = 0", 'token_budget = "auto"'))
    (path / "metrics.jsonl").unlink()
    (chapter,) = (c for c in story_of(path).chapters if c.kind == "step")
    assert chapter.choice is None
    assert "token_budget auto" in chapter.problem
    assert sum(b.kept for b in chapter.members) == 12
    (path / "config.toml").unlink()
    (chapter,) = (c for c in story_of(path).chapters if c.kind == "step")
    assert (chapter.choice, chapter.problem) == (None, "")


def test_what_infrastructure_broke_is_out_and_last(tmp_path):
    path = write_run(
        tmp_path / "run",
        steps=1,
        tasks=1,
        script=lambda s, t: call("look", where="below") if s[1] == 3 else f"worth {s[1]}",
    )
    (chapter,) = (c for c in story_of(path).chapters if c.kind == "step")
    (group,) = chapter.groups
    assert [b.member for b in group.members] == [0, 1, 2, 4, 5, 6, 7, 3]
    assert "the floor gave way" in group.members[-1].problem
    assert "infrastructure broke" in group.why[-1].said
    assert group.mean == pytest.approx(25 / 7)


def test_a_run_is_told_in_the_order_it_went(runs):
    story = story_of(runs / "a")
    keys = [chapter.key for chapter in story.chapters]
    assert keys == ["held-out-0", "step-1", "step-2", "held-out-2"]
    assert story.name == "a"
    assert ("budget", "6000 tokens a step") in story.facts
    assert [c.key for c in story_of(runs / "a", step=2).chapters] == ["step-2", "held-out-2"]
    with pytest.raises(UsageError, match=r"no episodes of step 7. It has 1 to 2"):
        story_of(runs / "a", step=7)
    with pytest.raises(UsageError, match="no such run"):
        story_of("nothing", out=str(runs))
    assert story_of("a", out=str(runs)).name == "a"


def test_a_last_line_that_was_cut_short_is_passed_over_and_other_lines_are_refused(tmp_path):
    path = write_run(tmp_path / "run", steps=1, tasks=1)
    file = path / "groups" / "000001.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    (chapter,) = (c for c in story_of(path).chapters if c.kind == "step")
    assert len(list(chapter.members)) == 7
    file.write_bytes(whole + b'{"task_id": "x"}\n')
    with pytest.raises(UsageError, match=r"000001.jsonl:9: no member"):
        story_of(path)


def test_the_same_attempt_again_counts_last_in_an_evaluation_and_is_another_s_in_a_step(tmp_path):
    path = write_run(tmp_path / "run", steps=1, tasks=1, n=2, m=2)
    file = path / "groups" / "000001.jsonl"
    lines = file.read_text().splitlines()
    again = json.loads(lines[0]) | {"reward": 9.0}
    file.write_text("\n".join([*lines, json.dumps(again)]) + "\n")
    evaluation = read_chapter("evaluation", None, "x", [file])
    assert sorted(b.reward for b in evaluation.members) == [0.25, 9.0]
    assert all(group.why == () for group in evaluation.groups)
    step = read_chapter("step", 1, "x", [file])
    assert [len(group.members) for group in step.groups] == [2, 1]


def test_a_brief_remembers_where_its_line_lies(runs):
    for chapter in story_of(runs / "a").chapters:
        for group in chapter.groups:
            for brief in group.members:
                row = brief.place.row()
                assert (row["task_id"], row["member"]) == (brief.task, brief.member)
                assert row["reward"] == brief.reward


def test_chapters_are_read_again_only_where_a_file_changed(tmp_path):
    path = write_run(tmp_path / "run", steps=2)
    shelf = Shelf(chooser)
    before = shelf.story(str(path)).chapters
    write_step(RunFolder(path), config_of(), 3, played(tasks_of(1), 8, step=3))
    after = shelf.story(str(path)).chapters
    assert {id(c) for c in before} < {id(c) for c in after}
    assert "step-3" in [c.key for c in after]


# Conversations


def test_a_conversation_is_told_card_by_card(runs):
    (chapter,) = (c for c in story_of(runs / "a").chapters if c.key == "step-2")
    row = chapter.groups[0].members[0].place.row()
    found = cards(row)
    assert [c["title"] for c in found] == [
        *("system", "task", "turn 1", "look", "turn 2", "look", "turn 3"),
    ]
    assert [c.get("failed") for c in found if c["kind"] == "tool"] == ["", "failed"]
    assert found[2]["calls"] == [{"name": "look", "args": [["where", "up"]]}]
    assert "</script>" in found[3]["text"]
    assert [c["title"] for c in found if c.get("mine")] == ["turn 1", "turn 2", "turn 3"]


def test_each_turn_has_the_tokens_that_were_sampled_in_it(runs):
    (chapter,) = (c for c in story_of(runs / "a").chapters if c.key == "step-1")
    row = chapter.groups[0].members[0].place.row()
    read = [cards(row, lambda ids: [chr(i - 1000) if i >= 1000 else "" for i in ids])]
    turns = [c for c in read[0] if c.get("mine")]
    assert "".join(turns[2]["tokens"]["text"]) == turns[2]["text"]
    assert '"where": "up"' in "".join(turns[0]["tokens"]["text"])
    assert {p for t in turns for p in t["tokens"]["logprobs"]} == {-1.0}
    cut = row | {"loss_mask": [0] * len(row["loss_mask"])}
    assert not any("tokens" in card for card in cards(cut))


def test_what_a_line_does_not_say_is_not_made_up():
    messages = [
        {"role": "user", "content": "like this:"},
        {"role": "assistant", "content": "an example"},
        {"role": "user", "content": "now you"},
        {"role": "assistant", "content": "mine", "reasoning_content": "hm"},
        {"role": "tool", "name": "look", "content": "dark"},
        {"role": "user", "content": "and?"},
        {"role": "narrator", "content": None},
    ]
    found = cards({"messages": messages, "turns": 1})
    assert [(c["title"], c.get("mine", False)) for c in found] == [
        *(("task", False), ("assistant", False), ("task", False), ("turn 1", True)),
        *(("look", False), ("user", False), ("narrator", False)),
    ]
    assert found[3]["thinking"] == "hm"
    assert "failed" not in found[4]


# Anything at all


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def line(runs):
    """One line with all that a line may have."""
    return json.loads((runs / "a" / "groups" / "000001.jsonl").read_text().splitlines()[0])


@given(data=st.data())
def test_whatever_a_line_holds_it_is_shown_or_refused_in_a_line(line, runs, tmp_path_factory, data):
    """Somebody else's file may hold anything that is JSON."""
    names = data.draw(st.lists(st.sampled_from(sorted(line)), min_size=1, max_size=3))
    row = line | {name: data.draw(JSON, label=name) for name in names}
    if data.draw(st.booleans()) and isinstance(row["messages"], list):
        row["messages"] = [*row["messages"], data.draw(JSON)]
    folder = tmp_path_factory.mktemp("odd")
    (folder / "groups").mkdir()
    (folder / "run.json").write_text((runs / "a" / "run.json").read_text())
    (folder / "groups" / "000001.jsonl").write_text(json.dumps(row) + "\n")
    out = folder / "view.html"
    try:
        write(Reader([str(folder)], choosers=chooser)(), out)
    except UsageError:
        return
    assert data_of(out)["story"]["scenes"]
