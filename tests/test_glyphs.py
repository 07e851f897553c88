"""Text for every kind of terminal: no signs that it lacks, and none that steer it."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.amounts import brief, large, number, plural
from agentrl.console import listener
from agentrl.events import Started, Stopping, Warned
from agentrl.glyphs import SPARKS, forgiving, is_rich, spelled
from agentrl.visible import on_a_line, visible


@given(st.text())
def test_any_text_can_be_spelled_in_ascii_and_is_left_alone_where_it_need_not(text):
    assert spelled(text, False).isascii()
    assert spelled(text, True) == text


def test_signs_keep_their_meaning_and_their_order():
    assert spelled("n 8 → m 4 · 0.5 ±0.1 …", False) == "n 8 -> m 4 | 0.5 +-0.1 ..."
    assert len({spelled(spark, False) for spark in SPARKS}) == len(SPARKS)
    assert {len(spelled(spark, False)) for spark in SPARKS} == {1}


@pytest.mark.parametrize(
    ("encoding", "rich"),
    [("utf-8", True), ("UTF8", True), ("utf-16", True), ("latin-1", False), ("ascii", False),
     ("cp1252", False), ("no such", False), (None, False)],
)  # fmt: skip
def test_an_encoding_has_every_sign_or_not(encoding, rich):
    assert is_rich(encoding) == rich


def test_a_stream_that_lacks_a_sign_writes_its_number_instead_of_breaking():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1", newline="\n")
    forgiving(stream)
    stream.write("é 漢\n")
    stream.flush()
    assert raw.getvalue() == b"\xe9 \\u6f22\n"


def test_lines_of_a_run_are_ascii_where_the_stream_is():
    raw = io.BytesIO()
    show = listener("plain", io.TextIOWrapper(raw, encoding="ascii", newline="\n"))
    for event in (
        Started("runs/a", "e\x1b[2J", "m", "x", 4, 2, 9, 1, 1),
        Warned("é\nx"),
        Stopping(),
    ):
        show(event)
    lines = raw.getvalue().decode("ascii").splitlines()
    assert lines[0].startswith("e\\x1b[2J | m on x | n 4 -> m 2 |")
    assert lines[1] == "warning: \\xe9\\nx"
    assert "Ctrl-C again stops now" in lines[2]
    assert len(lines) == 3


@given(st.text())
def test_what_is_visible_steers_nothing_and_is_so_at_once(text):
    found = visible(text)
    kept = "\n\t\u200c\u200d"
    assert all(c in kept or unicodedata.category(c) not in ("Cc", "Cf", "Cs") for c in found)
    assert visible(found) == found
    assert "\n" not in on_a_line(text)
    assert "\t" not in on_a_line(text)


def test_amounts_are_short():
    assert [large(n) for n in (0, 999, 1500, 2_000_000, 3e9)] == [
        "0",
        "999",
        "1.5k",
        "2.0M",
        "3.0G",
    ]
    assert [brief(s) for s in (0.04, 99.94, 100, 3700)] == ["0.0s", "99.9s", "1m40s", "1h01m"]
    assert [number(n) for n in (None, -0.001, 0.125)] == ["-", "0.00", "0.12"]
    assert [plural(1, "line"), plural(2, "line"), plural(2, "try", "tries")] == [
        "1 line", "2 lines", "2 tries"
    ]  # fmt: skip
