"""Every refusal says where, what, and what to do: all that the source can make are read."""

from __future__ import annotations

import re

import pytest

from tests.refusals import HOLE, ROOT, refusals

CODE = ("agentrl", "environments", "tools")
VERBS = re.sub(
    r"\s+",
    "|",
    "Add Allow Ask Begin Call Check Choose Close Compare Copy Count Define Delete Draw End "
    "Evaluate Export Finish Free Get Give Go Import Install Keep Leave Let Look Lower Make "
    "Mark Mend Name Open Pass Play Put Raise Read Record Remove Rename Reset Restart Resume "
    "Return Round Run Save Say See Set Show Spell Start Stop Take Train Try Turn Type Unset Use "
    "Wait Wrap Write",
)
"""How a sentence begins that says what to do."""
NEXT = re.compile(rf"(?:^|[:;,] (?:or )?|^Or )['\"`]*(?:{VERBS})\b", re.IGNORECASE)
ALLOWED = re.compile(
    r"Did you mean|Known\b|There (?:is|are)\b|It has\b|Its options:|`[a-z{]|Is the key|May the key"
)
"""How one begins that says what would do, or asks what may be wrong."""
MUST = re.compile(r"\bmust (?:be|have|begin)\b")
"""What is wrong and what would do, in one."""
END = re.compile(r"(?:[.?!)`'\"]|\{\})$")
SENTENCE = re.compile(r"(?<=[.?!])['\")]* +(?=[A-Z`'\"({-])|(?<=\{\}) +(?=[A-Z`{])")


def lack(text):
    """What a refusal does not say; empty where it says all."""
    if text == HOLE or re.fullmatch(r"[^.?!]*(\{\}){2}", text):  # another one, passed on
        return ""
    where, colon, rest = text.partition(": ")
    if not colon or re.search(r"[.?!] ", where) or len(where) > 100:
        return "where it is"
    what, *more = [part.strip() for part in SENTENCE.split(rest.strip()) if part.strip()]
    if not END.search(rest.strip()):
        return "its end"
    if not what.replace(HOLE, "").strip() or MUST.search(what):
        return ""
    if any(part == HOLE or NEXT.search(part) or ALLOWED.match(part) for part in more):
        return ""
    return "what to do"


def wrong_ones(found, where=""):
    lacks = [(one, lack(where + one.text)) for one in found]
    return [f"{one.where}: it does not say {what}: {one.text}" for one, what in lacks if what]


def test_every_refusal_says_where_what_and_what_to_do():
    found = [one for name in CODE for one in refusals(ROOT / name)]
    assert len(found) > 400
    assert wrong_ones(found) == []


@pytest.mark.parametrize("name", ["config", "offline", "sections"])
def test_what_settings_say_of_each_other_says_what_to_do(name):
    found = list(refusals(ROOT / "agentrl" / f"{name}.py", ["ValueError"]))
    assert wrong_ones(found, "--its-flag: ") == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("--m 80: can't keep 80 of n = 32. Lower --m or raise --n.", ""),
        ("{}: no such command. Did you mean {}?", ""),
        ("{}: it has no {}. {}", ""),
        ("--m 80: can't keep 80 of n = 32.", "what to do"),
        ("can't keep 80. Lower --m.", "where it is"),
        ("Something broke. --m: lower it.", "where it is"),
        ("--m 80: can't keep 80. Lower --m", "its end"),
        ("--m 80: can't keep 80. That is too many.", "what to do"),
        ("--m x: must be a whole number.", ""),
    ],
)
def test_what_a_refusal_lacks_is_seen(text, missing):
    assert lack(text) == missing


def test_the_reader_of_refusals_fills_in_what_code_puts_together(tmp_path):
    source = """
KNOWN = "Known: a, b."
def refuse(name, where):
    hint = suggestion(name, KNOWN, KNOWN) if name else why(name)
    raise UsageError(f"{where}: no {name!r}. " + hint)
def why(name):
    return "Give one." if name else KNOWN
"""
    (tmp_path / "x.py").write_text(source)
    texts = [refusal.text for refusal in refusals(tmp_path)]
    assert texts == sorted(
        f"{{}}: no {{}}. {end}" for end in {"Did you mean {}?", "Known: a, b.", "Give one."}
    )
