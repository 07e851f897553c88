"""`agentrl tools`: what is there, what a policy is told, what it would read."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.cli.argument import arguments_of
from agentrl.cli.entry import main
from agentrl.cli.tools import split
from agentrl.errors import UsageError
from agentrl.prints import MOST
from agentrl.registry import TOOLBOXES
from agentrl.toolbox import Toolbox

BOX = '''
"""Boxes for a test."""
import time
from typing import Literal
from pydantic import BaseModel
from agentrl import ToolError, ToolResult, Toolbox, tool

class Point(BaseModel):
    x: int

class Box(Toolbox):
    """It shows what it was given."""
    def __init__(self, size: int = 1, name: str = "box", folded=False):
        self.size, self.name, self.folded, self.log = size, name, folded, []
    def start(self, task):
        self.log.append("started")
    def release(self):
        import sys
        sys.stderr.write("released\\n")
    @tool
    def show(self, text: str = "", whole: int = 0, point: Point = None, any: int | str = 0) -> dict:
        """Show it.

        Args:
            text: some words.
        """
        return {"text": text, "whole": whole, "point": point, "any": any, "log": self.log}
    @tool
    def options(self) -> list:
        """Show the options."""
        return [self.size, self.name, self.folded]
    @tool(timeout=0.05, parallel=False)
    async def slow(self) -> str:
        """Take too long."""
        import asyncio
        await asyncio.sleep(60)
    @tool
    def fail(self) -> str:
        """Say no."""
        raise ToolError("I won't.")
    @tool
    def judge(self) -> ToolResult:
        """Reward."""
        return ToolResult("judged", reward=0.5, metrics={"share": 0.25})
    @tool
    def spoil(self) -> ToolResult:
        """Reward nothing that counts."""
        return ToolResult("", reward=float("nan"))
    @tool
    def shout(self) -> str:
        """Print a lot."""
        for _ in range(100):
            print("x" * 1_000_000)
        return "done"

class Needy(Toolbox):
    """It can't be made without words."""
    def __init__(self, words):
        self.words = words

class Single(Toolbox):
    """One tool."""
    @tool
    def only(self) -> str:
        """Be alone."""
        return "alone"
'''


@pytest.fixture
def box(tmp_path):
    path = tmp_path / "boxes.py"
    path.write_text(BOX)
    return f"{path}:Box"


@pytest.fixture
def call(capfd):
    def run(*words):
        code = main(["tools", *words])
        return code, *capfd.readouterr()

    return run


def test_a_toolbox_module_of_ours_is_listed_and_defines_exactly_one_box(call):
    code, out, _ = call("list", "--json")
    rows = json.loads(out)
    assert code == 0
    assert "calculator" in [row["name"] for row in rows]
    assert call()[1].count("\n") == len(rows)
    for row in rows:
        assert row["summary"]
        assert issubclass(TOOLBOXES.resolve(row["name"]), Toolbox)


def test_other_peoples_toolboxes_are_found_by_their_entry_points(tmp_path, monkeypatch, call):
    (tmp_path / "their_boxes.py").write_text(BOX)
    installed = tmp_path / "their_boxes-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: their-boxes\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[agentrl.tools]\ntheirs = their_boxes:Single\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "theirs" in call("list")[1]
    assert call("call", "theirs.only")[:2] == (0, "alone\n")


def test_a_toolbox_is_shown_as_a_policy_is_told_of_it(call, box):
    code, out, _ = call("show", box, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["summary"] == "It shows what it was given."
    assert found["options"] == {"size": 1, "name": "box", "folded": False}
    assert [t["name"] for t in found["tools"]][:3] == ["show", "options", "slow"]
    slow = next(t for t in found["tools"] if t["name"] == "slow")
    assert (slow["timeout"], slow["parallel"]) == (0.05, False)
    text = call("show", f"{box}.show")[1]
    assert "--tool.name ['box']" in text
    assert "text: string. some words." in text
    assert "any: integer or string." in text
    assert "Take too long" not in text


def test_a_box_that_needs_options_can_be_shown_without_them(call, box):
    code, out, _ = call("show", box.replace("Box", "Needy"))
    assert (code, "--tool.words VALUE" in out) == (0, True)


def test_a_call_is_started_and_released_and_says_what_came_of_it(call, box):
    code, out, err = call("call", f"{box}.show", "text=3", "whole=3", 'point={"x": 1}', "--json")
    found = json.loads(out)
    assert (code, err) == (0, "released\n")
    assert found["status"] == "ok"
    assert found["seconds"] > 0
    assert json.loads(found["content"]) == {
        "text": "3", "whole": 3, "point": {"x": 1}, "any": 0, "log": ["started"],
    }  # fmt: skip
    code, out, _ = call("call", f"{box}.judge", "--json")
    found = json.loads(out)
    assert (found["content"], found["reward"], found["metrics"]) == ("judged", 0.5, {"share": 0.25})


def test_options_of_a_box_are_given_by_name(call, box):
    words = ("--tool.size", "2", "--tool.name=7 boxes", "--tool.folded", "true")
    assert json.loads(call("call", f"{box}.options", *words)[1]) == [2, "7 boxes", True]


def test_a_box_of_one_tool_needs_no_name_behind_it(call, box):
    assert call("call", box.replace("Box", "Single"))[:2] == (0, "alone\n")
    assert call("call", "calculator", "expression=2^10 - 1/3")[:2] == (0, "3071/3\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["python", "code=x = 20; x + 1"], "21"),
        (["python", "code=print(2**10)", "--tool.session", "false"], "1024"),
        (["symbolic.factor", "expression=360"], "2^3 * 3^2 * 5"),
        (["files.write_file", "path=a/b.txt", "content=é"], "a/b.txt now has 1 character."),
        (["sql", "statement=SELECT 1 AS one"], "one\n1"),
    ],
)
def test_the_toolboxes_of_ours_can_be_called_by_hand(call, words, said):
    assert call("call", *words) == (0, f"{said}\n", "")


def test_every_toolbox_of_ours_can_be_shown(call):
    for name in TOOLBOXES.names():
        code, out, _ = call("show", name, "--json")
        found = json.loads(out)
        assert (code, found["name"]) == (0, name)
        for told in found["tools"]:
            assert told["description"].strip()
            assert all(p.get("description") for p in told["parameters"]["properties"].values())


@pytest.mark.parametrize(
    ("words", "code", "status", "said"),
    [
        (["fail"], 1, "error", "I won't."),
        (["slow"], 1, "timeout", "slow took longer than 0.05 seconds."),
        (["show", "whole=three"], 2, "bad_arguments", "show: bad arguments. whole: Input should"),
        (["show", "wholes=3"], 2, "bad_arguments", "show: bad arguments. wholes: Extra inputs"),
    ],
)
def test_the_exit_code_says_whether_the_tool_or_the_words_were_wrong(
    call, box, words, code, status, said
):
    found, out, err = call("call", f"{box}.{words[0]}", *words[1:])
    assert (found, out) == (code, "")
    assert err.startswith(f"released\n{status}: {said}")
    found, out, _ = call("call", f"{box}.{words[0]}", *words[1:], "--json")
    document = json.loads(out)
    assert (found, document["status"]) == (code, status)
    assert document["content"].startswith(said)


def test_a_tool_that_breaks_its_promises_is_a_failure_in_one_line(call, box):
    code, out, err = call("call", f"{box}.spoil")
    assert (code, out) == (1, "")
    assert err == (
        "released\ntool spoil: its reward is nan. Rewards and metrics are finite numbers.\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "agentrl tools nope: no such action."),
        (["list", "calculator"], "calculator: `agentrl tools list` takes no such argument."),
        (["show", "calculator", "a=b"], "a=b: `agentrl tools show` takes no such argument."),
        (["call"], "agentrl tools call: which?"),
        (["call", "calculatr"], "tool calculatr: no such toolbox. Did you mean calculator?"),
        (
            ["call", "calculator.calc"],
            "tool calculator.calc: no such tool. There is calculator.calc",
        ),
        (["call", "BOX"], "tool BOX: which of its tools? There is BOX.show, "),
        (["call", "BOX.show", "text"], "text: not an argument. Write key=value"),
        (["call", "BOX.show", "text=1", "text=2"], "text=2: text is given twice."),
        (["call", "BOX.show", "text=@nowhere"], "text=@nowhere: nowhere can't be read (No such"),
        (["call", "BOX.show", "--tool.sze", "3"], "--tool.sze: BOX has no such option. Did you"),
        (["call", "BOX.show", "--env.size", "3"], "--env.size: not an option here."),
        (["show", "FILE"], "tool FILE: it defines Box, Needy, Single. Name one class"),
        (["show", "agentrl.env:ToolEnv"], "tool agentrl.env:ToolEnv: no toolbox ToolEnv: it is"),
        (["show", "NEEDY", "--tool.x", "1"], "--tool.x: NEEDY has no such option."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_was_given_wrong_is_told_in_one_line(call, box, words, said):
    names = {"BOX": box, "FILE": box.removesuffix(":Box"), "NEEDY": box.replace("Box", "Needy")}
    for short, long in names.items():
        words = [word.replace(short, long) for word in words]
        said = said.replace(short, long)
    code, out, err = call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(said)


ODD = '''
"""Boxes with bad habits."""
from agentrl import Toolbox, tool
from agentrl.errors import EnvironmentFault

class Breaks(Toolbox):
    """It does not say what it has."""
    def tools(self):
        raise RuntimeError("two\\nlines")

class Nothing(Toolbox):
    """It says nothing."""
    def tools(self):
        return None

class Loud(Toolbox):
    """It commands the terminal."""
    @tool
    def paint(self) -> str:
        """Paint."""
        return "\\x1b[31mred\\nand\\tmore"
    @tool
    def fail(self) -> str:
        """Fail."""
        raise RuntimeError("two\\nlines \\x1b[31m")
    @tool
    def fault(self) -> str:
        """Break."""
        raise EnvironmentFault("two\\nlines of fault")
'''


@pytest.fixture
def odd(tmp_path):
    (tmp_path / "odd.py").write_text(ODD)
    return str(tmp_path / "odd.py")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "ODD:Breaks"], 2, "tool ODD:Breaks: it does not say which tools it has: Runtime"),
        (["call", "ODD:Breaks.x"], 2, "tool ODD:Breaks: it does not say which tools it has: Ru"),
        (["show", "ODD:Nothing"], 2, "tool ODD:Nothing: it does not say which tools it has: Ty"),
        (["show", "."], 2, ".: no toolbox. Write BOX.TOOL;"),
        (["call", "ODD:Loud.fail"], 1, "error: fail failed: RuntimeError: two lines \\x1b[31m"),
        (["call", "ODD:Loud.fault"], 1, "two lines of fault"),
        (["call", "http", "--tool.requests", "abc"], 2, "--tool.requests: 'abc' does not fit (Inp"),
        (["call", "sql", "--tool.seconds", "abc"], 2, "--tool.seconds: 'abc' does not fit (Input"),
        (["call", "sql", "--tool.rows", "5"], 2, "--tool.rows: 5 does not fit (Input should be"),
        (["call", "sql", "--tool.setup", "x"], 2, "sql: setup must be a function"),
        (["call", "search", "--tool.folder", "5"], 2, "--tool.folder: 5 does not fit (Input"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_failure_is_one_line_and_one_document(call, odd, words, code, said):
    words, said = [w.replace("ODD", odd) for w in words], said.replace("ODD", odd)
    found, out, err = call(*words)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert err.startswith(said)
    found, out, _ = call(*words, "--json")
    document = json.loads(out)
    assert (found, "error" in document or document["status"] == "error") == (code, True)


def test_a_terminal_is_not_commanded_by_what_a_tool_says(call, odd):
    assert call("call", f"{odd}:Loud.paint")[1] == "\\x1b[31mred\nand\tmore\n"
    document = json.loads(call("call", f"{odd}:Loud.paint", "--json")[1])
    assert document["content"] == "\x1b[31mred\nand\tmore"


def test_options_may_stand_between_a_tool_and_its_arguments(call):
    code, out, _ = call("call", "calculator", "--json", "expression=1+1")
    assert (code, json.loads(out)["content"]) == (0, "2")


def test_a_schema_that_refers_to_itself_is_read_to_its_end():
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}}}
    itself = {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}]}
    assert arguments_of(["a=3"], schema | {"$defs": {"A": itself}}) == {"a": 3}


def test_what_a_tool_prints_is_bounded_and_no_part_of_the_document(box):
    done = subprocess.run(
        [sys.executable, "-m", "agentrl", "tools", "call", f"{box}.shout", "--json"],
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["content"] == "done"
    assert MOST <= len(done.stderr) <= MOST + 200


# Words


SCHEMA = {
    "$defs": {"Colour": {"enum": ["1", "red"], "type": "string"}, "P": {"type": "object"}},
    "properties": {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "real": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "several": {"type": ["integer", "null"]},
        "colour": {"$ref": "#/$defs/Colour"},
        "size": {"enum": ["s", 3]},
        "const": {"const": 3},
        "point": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]},
        "free": {},
    },
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=3", "3"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text=@@home", "@home"),
        ("text=null", "null"),
        ('text="quoted"', '"quoted"'),
        ("text=ž🐎", "ž🐎"),
        ("whole=3", 3),
        ("whole=-3", -3),
        ("whole=three", "three"),
        ("real=3", 3),
        ("real=1e3", 1000.0),
        ("flag=true", True),
        ("flag=yes", "yes"),
        ("list=[1, 2]", [1, 2]),
        ("maybe=null", None),
        ("maybe=3", "3"),
        ("either=3", 3),
        ("either=3.5", "3.5"),
        ("either=three", "three"),
        ("several=null", None),
        ("colour=1", "1"),
        ("size=3", 3),
        ("size=s", "s"),
        ("const=3", 3),
        ('point={"x": 1}', {"x": 1}),
        ("free=[null]", [None]),
        ("free=words", "words"),
        ('free="3"', "3"),
        ("unknown=3", 3),
    ],
)
def test_a_value_is_of_the_type_that_the_schema_takes(word, value):
    found = arguments_of([word], SCHEMA)[word.partition("=")[0]]
    assert (found, type(found)) == (value, type(value))


def test_a_file_stands_for_its_text(tmp_path):
    path = tmp_path / "a b.txt"
    path.write_text('{"x": "ž"}\n')
    words = [f"text=@{path}", f"point=@{path}"]
    assert arguments_of(words, SCHEMA) == {"text": '{"x": "ž"}\n', "point": {"x": "ž"}}
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="it is not UTF-8"):
        arguments_of(words, SCHEMA)


@given(st.text().filter(lambda text: not text.startswith("@")))
def test_text_is_never_changed(text):
    assert arguments_of([f"text={text}"], SCHEMA) == {"text": text}


def test_a_tool_is_named_behind_its_box():
    for text, parts in (
        ("search", ("search", "")),
        ("search.query", ("search", "query")),
        ("a.b:C", ("a.b:C", "")),
        ("a.b:C.query", ("a.b:C", "query")),
        ("path/file.py", ("path/file.py", "")),
        ("path.d/file.py:C.query", ("path.d/file.py:C", "query")),
    ):
        assert split(text) == parts
