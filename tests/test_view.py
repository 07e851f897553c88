"""What `agentrl view` reads out of a run, and how it lays that out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.cli.chosen_again import chooser
from agentrl.cli.entry import main
from agentrl.errors import UsageError
from agentrl.record import RunFolder
from agentrl.selection import select
from agentrl.selection.objective import is_flat, q
from agentrl.view.book import MARK, Reader, laid_out, write
from agentrl.view.brief import Brief, Place
from agentrl.view.chapter import Group, read_chapter
from agentrl.view.page import page, policy, text_of
from agentrl.view.scene import Row, Scene
from agentrl.view.story import Shelf
from agentrl.view.transcript import cards
from agentrl.view.why import Terms, whys
from tests.steered import call
from tests.viewed import HOSTILE, config_of, played, tasks_of, write_run, write_step


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Scripted runs that are only read."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "a", steps=2, token_budget=6000)
    write_run(root / "b", steps=1, rule="max_reward", tokens=False)
    return root


def story_of(path, **options):
    return Shelf(chooser).story(str(path), **options)


def data_of(path):
    """The blocks of data in a page, by name."""
    found = re.findall(
        r'<script type="application/json" id="([^"]*)">(.*?)</script>', path.read_text(), re.DOTALL
    )
    return {name: json.loads(text) for name, text in found}


# Why


def best_other(rewards, costs, kept, row, price, m):
    """What the best other decision about a row gains, by trying each of them."""

    def worth(rows):
        chosen = [rewards[i] for i in rows]
        return q(chosen) - price * sum(costs[i] for i in rows) if chosen else 0.0

    now = {i for i, keep in enumerate(kept) if keep}
    others = [i for i in range(len(rewards)) if kept[i] != kept[row] and rewards[i] != rewards[row]]
    if kept[row]:
        changed = [now - {row}, *((now - {row}) | {i} for i in others)]
    else:
        changed = [(now - {i}) | {row} for i in others]
        changed += [now | {row}] if len(now) < m else []
    return max((worth(rows) - worth(now) for rows in changed), default=None)


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([-1.0, 0.0, 0.25, 1.0, 3.0]), st.integers(1, 50), st.booleans()),
        min_size=2,
        max_size=9,
    ),
    price=st.sampled_from([0.0, 0.01, 0.3]),
    room=st.integers(0, 2),
)
def test_value_and_margin_are_what_trying_every_other_decision_gives(rows, price, room):
    rewards, costs, kept = map(list, zip(*rows, strict=True))
    if not any(kept):
        kept[0] = True
    m = sum(kept) + room
    found = whys(rewards, costs, kept, {}, Terms(m=m, price=price))
    for i, why in enumerate(found):
        others = [r for j, r in enumerate(rewards) if kept[j] and j != i]
        assert why.value == pytest.approx(
            q([*others, rewards[i]]) - (q(others) if others else 0.0), abs=1e-9
        )
        assert why.cost == pytest.approx(price * costs[i])
        gain = best_other(rewards, costs, kept, i, price, m)
        if gain is None:
            assert why.margin is None
        else:
            assert (-why.margin if kept[i] else why.margin) == pytest.approx(gain, abs=1e-9)


@given(
    rewards=st.lists(st.floats(-5, 5).map(lambda x: round(x, 2)), min_size=3, max_size=12),
    m=st.integers(2, 6),
)
def test_without_a_budget_no_decision_of_the_largest_spread_could_have_been_better(rewards, m):
    if is_flat(rewards):
        return
    found = select(rewards, [1] * len(rewards), m=m)
    kept = [i in found.indices for i in range(len(rewards))]
    for keep, why in zip(
        kept, whys(rewards, [1] * len(rewards), kept, {}, Terms(m=m)), strict=True
    ):
        assert why.margin is None or (why.margin if keep else -why.margin) >= -1e-9


def said(rewards, kept, costs=None, out=None, note="", **terms):
    costs = costs or [10] * len(rewards)
    return [w.said for w in whys(rewards, costs, kept, out or {}, Terms(m=2, **terms), note)]


def test_each_decision_is_told_in_a_sentence():
    one, two, three = said([0.0, 0.5, 1.0], [True, False, True])
    assert one.startswith("Kept: reward 0 lies 0.5 below the mean of the 2 kept.")
    assert two == (
        "Not kept: reward 0.5 lies at the mean of the 2 kept. "
        "In the best exchange for a kept one, Q would fall by 0.375."
    )
    assert three.endswith("With the best other one instead, Q would fall by 0.375.")


def test_what_costs_more_than_it_brings_is_told_to_be_paid_from_what_is_left():
    dear = said([0.0, 1.0, 1.0], [True, True, True], [10, 10, 90], price=0.01)
    assert "would rise by" in dear[2]
    assert dear[2].endswith(
        "A budget is spent in whole trajectories, so some cost more than they bring."
    )
    assert "whole trajectories" not in dear[0]


def test_equal_rewards_are_told_apart_by_a_lot_or_by_length():
    by_lot = said([0.0, 1.0, 1.0], [True, True, False])
    assert by_lot[2].endswith("Of 2 with this reward 1 is kept; a lot decided which.")
    by_length = said([0.0, 1.0, 1.0], [True, True, False], drawn=False)
    assert by_length[2].endswith("the cheapest are taken.")


def test_nothing_to_tell_apart_nothing_affordable_and_nothing_usable_have_words_of_their_own():
    flat = said([1.0, 1.0], [False, False])
    assert all("all rewards of this task are alike" in text for text in flat)
    (alone,) = said([1.0], [False])
    assert "no other trajectory" in alone
    dear = said([0.0, 1.0], [False, False], [400, 500], price=0.01, left=30)
    assert "has 900 tokens, which cost 9. The budget has 30 left" in dear[0]
    out = said([0.0, 1.0, None], [True, True, False], out={1: "too long."})
    assert out[1:] == [
        "Left out before the choice: too long.",
        "Left out before the choice: it has no reward.",
    ]


def test_other_rules_are_told_by_what_they_go_by():
    text = said([0.0, 0.5, 1.0], [False, True, True], rule="max_reward")[0]
    assert text == "Not kept. Rule max_reward keeps the 2 highest rewards."


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


# Pages


def row_of_size(size):
    place = Place(None, 0, size)
    brief = Brief(
        "t", 0, 1.0, False, None, 0.0, 1, 1, 1, 0, 0, "answer", "ok", 0, True, (), (), "", place
    )
    return Row((Group("t", "t", (), (brief,), (), 1.0, 0.0, 0.0, True),))


@given(sizes=st.lists(st.lists(st.integers(1, 60), max_size=6), max_size=6))
def test_every_task_is_on_one_page_in_order_and_no_page_is_too_large(sizes):
    scenes = [Scene("k", "k", (None,), tuple(map(row_of_size, scene))) for scene in sizes]
    sheets = laid_out(scenes, 50)
    flat = [place for sheet in sheets for place in sheet.rows]
    assert flat == [(s, r) for s, scene in enumerate(sizes) for r in range(len(scene))]
    for sheet in sheets:
        assert sum(sizes[s][r] for s, r in sheet.rows) <= 50 or len(sheet.rows) == 1
    for s, scene in enumerate(sizes):
        if sum(scene) <= 50:
            assert len({n for n, sheet in enumerate(sheets) for at, _ in sheet.rows if at == s}) < 2


def test_a_long_run_becomes_several_pages_that_know_each_other(tmp_path):
    path = write_run(tmp_path / "run", steps=3)
    out = path / "view.html"
    paths = write(Reader([str(path)], choosers=chooser)(), out, limit=60_000)
    assert len(paths) > 2
    assert paths[1].name == "view-2.html"
    seen = []
    for at, one in enumerate(paths):
        data = data_of(one)
        story = data.pop("story")
        assert story["pages"] == [p.name for p in paths]
        assert story["page"] == at
        here = [row["id"] for scene in story["scenes"] for row in scene["rows"]]
        assert [f"talk-{row}" for row in here] == list(data)
        seen += here
    assert len(seen) == len(set(seen)) == 3 * 3 + 2 * 2
    mine = path / "view-9.html"
    mine.write_text("<p>notes</p>")
    assert write(Reader([str(path)])(), out) == [out]
    assert sorted(p.name for p in path.glob("view*")) == ["view-9.html", "view.html"]


class Tags(HTMLParser):
    """What is markup in a page, as a browser sees it."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@given(st.text() | st.just(HOSTILE) | st.text("</script>-!&'\"\u2028\u202e{%#}"))
def test_whatever_was_said_is_data_and_never_markup(words):
    story = {"live": False, "title": words}
    text = "".join(page(words, story, [("a", [words])]))
    tags = Tags(text).tags
    assert [t for t, _ in tags].count("script") == 3
    assert {a.get("id") for t, a in tags if t == "script"} == {"story", "talk-a", None}
    assert not any(name.startswith("on") for _, a in tags for name in a)
    block = re.search(r'id="talk-a">(.*?)</script>', text, re.DOTALL)
    assert json.loads(block[1]) == [words]
    assert not set("\u2028\u2029\u202d\u202e\u2066\u2067") & set(block[1])


def test_halves_of_pairs_can_be_written():
    text = text_of({"a": "\ud800 \u202e \U0001f600"})
    assert json.loads(text.encode()) == {"a": "\ud800 \u202e \U0001f600"}


def test_a_page_names_nothing_that_it_could_load(runs, tmp_path):
    out = tmp_path / "page.html"
    assert main(["view", str(runs / "a"), "--out", str(out)]) == 0
    text = out.read_text()
    assert MARK in text
    for tag, attributes in Tags(text).tags:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:,"))
        assert tag not in ("img", "iframe", "object", "embed", "base")
    assert "default-src 'none'" in policy(live=False)
    assert "connect-src" not in policy(live=False)
    assert "unsafe" not in policy(live=True)


# Two side by side, and the command


def test_two_runs_are_paired_by_step_and_task_and_by_their_last_measurement(runs, tmp_path):
    out = tmp_path / "two.html"
    assert main(["view", str(runs / "a"), str(runs / "b"), "--out", str(out)]) == 0
    story = data_of(out)["story"]
    titles = [scene["title"] for scene in story["scenes"]]
    assert titles == [
        *("held-out 0", "step 1", "held-out 1", "step 2", "held-out 2"),
        "held-out 2 and held-out 1",
    ]
    assert story["first"] == 5
    (step,) = (scene for scene in story["scenes"] if scene["key"] == "step-1")
    assert all(len(row["sides"]) == 2 and all(row["sides"]) for row in step["rows"])
    (second,) = (scene for scene in story["scenes"] if scene["key"] == "step-2")
    assert all(row["sides"][1] is None for row in second["rows"])


def test_the_same_task_is_followed_over_steps(runs, tmp_path):
    out = tmp_path / "page.html"
    assert main(["view", str(runs / "a"), "--out", str(out)]) == 0
    story = data_of(out)["story"]
    trails = {s["key"]: s["rows"][0]["sides"][0]["trail"] for s in story["scenes"]}
    assert [key for key, _ in trails["step-1"]] == ["step-1", "step-2"]
    assert trails["held-out-2"] == [["held-out-0", 0.0], ["held-out-2", 0.5]]


def test_only_some_tasks_are_shown_where_that_is_asked_for(runs, tmp_path):
    out = tmp_path / "page.html"
    words = ["view", str(runs / "a"), "--out", str(out), "--task", "2. where", "--step", "1"]
    assert main(words) == 0
    assert [len(s["rows"]) for s in data_of(out)["story"]["scenes"]] == [1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["a", "b", "a"], "a: two stand side by side, not more. Name two."),
        (["a", "--task", "dragon"], "no task with 'dragon'. There is nothing to show."),
        (["a", "--step", "x"], "--step: 'x' is not a whole number."),
        (["c"], "c: no such run. A run is a folder with run.json."),
    ],
)
def test_a_mistake_is_one_line(runs, capfd, words, complaint):
    assert main(["view", *words, "--runs", str(runs)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert complaint in err
    assert err.count("\n") == 1


def test_programs_get_the_path(runs, tmp_path, capfd):
    out = tmp_path / "deep" / "page.html"
    assert main(["view", str(runs / "a"), "--out", str(out), "--no-open", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"path": str(out), "pages": [str(out)]}


def test_a_real_run_and_a_real_evaluation_are_shown_without_torch(tmp_path):
    """The embedded policy, for a moment; then in another process, which imports what it needs."""
    root = str(tmp_path)
    train = ["train", "--env", "tool_math", "--n", "4", "--m", "2", "--steps", "1", "--name", "run"]
    train += ["--tasks-per-step", "2", "--eval-every", "0", "--heldout.tasks", "2", "--out", root]
    assert main([*train, "--record.tokens", "true", "--progress", "off"]) == 0
    evaluate = ["eval", "--env", "tool_math", "--tasks", "2", "--k", "2"]
    assert main([*evaluate, "--out", str(tmp_path / "eval")]) == 0
    code = (
        "import sys; from agentrl.cli.entry import main\n"
        f"code = main(['view', *{[f'{root}/run', f'{root}/eval', '--out', f'{root}/v.html']!r}])\n"
        "assert not {'torch', 'transformers', 'vllm'} & set(sys.modules)\n"
        "sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    data = data_of(tmp_path / "v.html")
    story = data.pop("story")
    assert [side["name"] for side in story["sides"]] == ["run", "eval"]
    assert story["scenes"][story["first"]]["title"] == "held-out 1 and evaluation"
    first = next(talk for name, talk in data.items() if name.startswith("talk-step-1"))
    turn = next(card for card in first[0][0] if card.get("mine"))
    assert turn["tokens"]["text"][-1] == "<|im_end|>"
    assert all(p <= 0 for p in turn["tokens"]["logprobs"])


def measured(path):
    """Seconds, and the most memory in MB, of the command in a process of its own."""
    code = (
        "import resource, sys, time; from agentrl.cli.entry import main; begun = time.monotonic()\n"
        f"assert main(['view', {str(path)!r}, '--json']) == 0\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "print(time.monotonic() - begun, peak, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds, peak = map(float, done.stderr.split()[-2:])
    return seconds, peak


def many(path, count):
    """A run of so many recorded trajectories."""
    write_run(path, steps=1, tasks=8, n=8, tokens=False)
    rows = [json.loads(line) for line in (path / "groups" / "000001.jsonl").open()]
    for step in range(1, count // 1000 + 1):
        with (path / "groups" / f"{step:06d}.jsonl").open("w") as file:
            for number in range(1000):
                place = {"task_id": f"{step % 50} {number // 8}", "member": number % 8}
                file.write(json.dumps(rows[number % len(rows)] | place) + "\n")
    return path


@pytest.mark.slow
def test_a_hundred_thousand_trajectories_take_little_memory_and_time_grows_with_them(tmp_path):
    times, peaks = zip(
        *(measured(many(tmp_path / str(n), n)) for n in (25_000, 100_000)), strict=True
    )
    assert max(peaks) < 1024
    assert times[1] < 8 * times[0]
    pages = sorted((tmp_path / "100000").glob("view*.html"))
    assert all(page.stat().st_size < 40_000_000 for page in pages)
    assert len(pages) > 2
    assert all(b > a for a, b in pairwise(np.cumsum([p.stat().st_size for p in pages])))


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
