import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import ValidationError

from agentrl import disk, sinks
from agentrl.config import RecordSection
from agentrl.events import Measured, Started, Stepped, Warned
from agentrl.interval import Interval
from agentrl.sinks import Sinks
from agentrl.training import train
from tests.kill_storm import ENVIRONMENT, config, remains
from tests.test_resume import with_


class Shelf:
    """A sink that remembers."""

    def __init__(self, fails=()):
        self.fails, self.logged, self.closed = fails, [], 0

    def open(self, begun, settings):
        if "open" in self.fails:
            raise ConnectionError("no such host")
        self.settings = settings
        return self

    def log(self, figures, step):
        if step in self.fails:
            raise ValueError("too many figures")
        self.logged.append((step, dict(figures)))

    def close(self):
        self.closed += 1
        if "close" in self.fails:
            raise OSError("disk full")


def started(path=Path("runs/one"), first_step=1):
    return Started(path, "tool_math", "tiny", "transformers", 8, 4, 3, 2, first_step)


def stepped(step, **row):
    return Stepped({"step": step, "version": step, "heldout": None, **row}, 3, 1.0, 1.0)


EVENTS = [
    started(),
    Measured(0, Interval(0.25, 0.1, 0.4), 8, 1.0),
    stepped(1, reward=0.5),
    Measured(2, Interval(0.5, 0.1, 0.9), 8, 1.0),
    stepped(2, reward=0.75, heldout=0.5, text="words"),
]


def played(**shelves):
    warned = []
    found = Sinks({name: s.open for name, s in shelves.items()}, {"a.b": 1}, warned.append)
    for event in EVENTS:
        found(event)
    found.close()
    assert all(isinstance(event, Warned) for event in warned)
    return [event.text for event in warned]


WHOLE = [
    (0, {"heldout": 0.25}),
    (1, {"version": 1.0, "reward": 0.5}),
    (2, {"version": 2.0, "reward": 0.75, "heldout": 0.5}),
]


def test_every_number_of_a_step_goes_to_every_sink():
    one, two = Shelf(), Shelf()
    assert played(one=one, two=two) == []
    assert one.logged == two.logged == WHOLE
    assert (one.closed, one.settings) == (1, {"a.b": 1})


@pytest.mark.parametrize(
    ("fails", "left", "words"),
    [("open", 0, "no such host"), (1, 1, "too many figures"), ("close", 3, "disk full")],
)
def test_a_sink_that_raises_is_told_once_and_done_without(fails, left, words):
    broken, whole = Shelf({fails}), Shelf()
    (text,) = played(broken=broken, whole=whole)
    assert text.startswith("record.sinks broken: ")
    assert words in text
    assert "The run goes on without it" in text
    assert broken.logged == WHOLE[:left]
    assert whole.logged == WHOLE


def test_an_option_of_an_environment_is_not_given_away():
    settings = {"env": {"name": "x", "options": {"key": "secret"}}, "train": {"steps": 3}}
    assert sinks.shown(settings) == {"env.name": "x", "train.steps": 3}


def test_a_run_keeps_its_identity_and_shares_it_with_no_other(tmp_path):
    one, two = tmp_path / "a" / "run", tmp_path / "b" / "run"
    assert sinks.identity(one) == sinks.identity(one) != sinks.identity(two)


@pytest.mark.parametrize("text", ["wandbb", "tensorboard, x"])
def test_an_unknown_sink_is_refused(text):
    with pytest.raises(ValidationError, match=r"is no sink\."):
        RecordSection(sinks=text)


def test_names_may_be_written_with_spaces_and_twice():
    section = RecordSection(sinks=" wandb,tensorboard , wandb,")
    assert section.sink_names == ["tensorboard", "wandb"]
    assert RecordSection().sink_names == []


class Library(ModuleType):
    """Has the calls of wandb and trackio, as far as they are used, and remembers them."""

    def init(self, **how):
        self.how, self.calls = how, []
        return self

    def log(self, figures, step):
        self.calls.append((step, figures))

    def finish(self):
        self.calls.append("finish")


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_tracker_is_told_what_it_needs_and_uploads_nothing(tmp_path, monkeypatch, name):
    library = Library(name)
    monkeypatch.setitem(sys.modules, name, library)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    sink = sinks.SINKS[name](started(tmp_path / "one"), {"train.steps": 3})
    sink.log({"reward": 0.5}, 1)
    sink.close()
    assert library.calls == [(1, {"reward": 0.5}), "finish"]
    assert library.how["config"] == {"train.steps": 3}
    assert library.how["resume"] == "allow"
    assert library.how["name"].startswith("one")
    assert library.how.get("mode", "offline") == "offline"
    assert "space_id" not in library.how
    first = library.how
    sinks.SINKS[name](started(tmp_path / "one", first_step=3), {"train.steps": 3})
    assert library.how == first


def test_wandb_goes_online_where_that_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", library := Library("wandb"))
    monkeypatch.setenv("WANDB_MODE", "online")
    sinks.wandb(started(tmp_path / "one"), {})
    assert library.how["mode"] == "online"


def test_a_package_that_is_not_there_is_a_warning_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    warned = []
    Sinks({"wandb": sinks.wandb}, {}, warned.append)(started())
    (event,) = warned
    assert "pip install 'agentrl-pods[wandb]'" in event.text


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed")
def test_a_resumed_run_in_tensorboard_has_each_step_once(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for first, steps in ((1, (1, 2)), (2, (2, 3))):
        sink = sinks.tensorboard(started(tmp_path, first), {})
        for step in steps:
            sink.log({"reward": step / first}, step)
        sink.close()
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    told = [(event.step, event.value) for event in found.Scalars("reward")]
    assert told == [(1, 1.0), (2, 1.0), (3, 1.5)]


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed")
def test_a_run_is_the_same_with_a_sink_and_with_one_that_is_broken(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    (tmp_path / "envs.py").write_text(ENVIRONMENT)
    events = []
    for name, text in (("plain", ""), ("watched", "tensorboard,wandb")):
        watched = with_(config(tmp_path, name), record={"sinks": text}, train={"steps": 1})
        train(watched, listeners=[events.append])
    assert remains(tmp_path / "plain") == remains(tmp_path / "watched")
    (warning,) = [event.text for event in events if isinstance(event, Warned)]
    assert warning.startswith("record.sinks wandb: ")
    assert warning in (tmp_path / "watched" / "logs" / "attempt-001.log").read_text()
    assert list((tmp_path / "watched" / "tensorboard").glob("events.*"))
    (row,) = disk.rows(tmp_path / "watched" / "metrics.jsonl")
    assert json.loads((tmp_path / "watched" / "run.json").read_text())["status"] == "done"
    assert row["step"] == 1
