"""How `agentrl view` lays out what it read: pages, two runs side by side, the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.cli.chosen_again import chooser
from agentrl.cli.entry import main
from agentrl.view.book import MARK, Reader, laid_out, write
from agentrl.view.brief import Brief, Place
from agentrl.view.chapter import Group
from agentrl.view.page import page, policy, text_of
from agentrl.view.scene import Row, Scene
from tests.viewed import HOSTILE, data_of, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Scripted runs that are only read."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "a", steps=2, token_budget=6000)
    write_run(root / "b", steps=1, rule="max_reward", tokens=False)
    return root


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
    """Seconds of the processor, and the most memory in MB, of the command in its own process."""
    code = (
        "import resource, sys; from agentrl.cli.entry import main\n"
        f"assert main(['view', {str(path)!r}, '--json']) == 0\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds, peak = map(float, done.stderr.split()[-2:])
    return seconds, peak


def many(path, count):
    """A run of so many recorded trajectories."""
    write_run(path, steps=1, tasks=8, n=8, tokens=False)
    lines = (path / "groups" / "000001.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
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
