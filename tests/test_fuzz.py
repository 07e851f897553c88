"""What reads a policy's text stands any bytes: atheris where it runs, seeded chance everywhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.formats import table
from tests.fuzz.run import FORMATS, NAMES
from tests.fuzz.targets import TARGETS

RUN = Path(__file__).parent / "fuzz" / "run.py"
BROKEN = """
from types import SimpleNamespace


def run(data):
    if data.startswith(b"ab"):
        raise KeyError("a promise that is broken")


TARGETS = {"hermes": SimpleNamespace(run=run, seeds=(b"axc",), words=(b"b",), longest=8)}
"""


def fuzz(name, *options, folder, script=RUN):
    command = [sys.executable, str(script), name, "--findings", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def through(name, most, engine, folder):
    done = fuzz(name, "--bytes", str(most), "--engine", engine, folder=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bytes"] >= most
    assert report["distinct"] > report["inputs"] / 4
    assert not list(folder.iterdir())


def test_every_target_can_be_fuzzed_by_name():
    assert set(NAMES) == set(TARGETS)
    assert set(FORMATS) == set(table.FORMATS)


@pytest.mark.parametrize(
    ("name", "engine"),
    # Chance alone goes through the formats in test_format_fuzz.py.
    [*((name, "auto") for name in NAMES), *((n, "random") for n in NAMES if n not in FORMATS)],
)
def test_two_hundred_thousand_bytes_find_nothing(tmp_path, name, engine):
    through(name, 200_000, engine, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ten_million_bytes_find_nothing(tmp_path, name):
    through(name, 10_000_000, "auto", tmp_path)


@pytest.mark.parametrize("engine", ["auto", "random"])
def test_a_broken_promise_is_found(tmp_path, engine):
    script = tmp_path / "tests" / "fuzz" / "run.py"
    script.parent.mkdir(parents=True)
    script.write_text(RUN.read_text())
    (script.parent / "targets.py").write_text(BROKEN)
    done = fuzz("hermes", "--engine", engine, folder=tmp_path, script=script)
    assert done.returncode != 0
    assert "a promise that is broken" in done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_and_any_row_of_words_keep_the_promises(name):
    target = TARGETS[name]
    words = st.lists(st.sampled_from(target.words + target.seeds), max_size=30).map(b"".join)

    @settings(max_examples=300)
    @given(st.one_of(st.binary(), words, st.text().map(str.encode)))
    def kept(data):
        target.run(data[: target.longest])

    kept()
