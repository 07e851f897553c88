"""What a policy may write for each kind of parameter, and what the tool then sees."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Predicate
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, field_validator
from typing_extensions import TypedDict

from agentrl.calling import MAX_COMPLAINT, MAX_DEPTH, run_calls
from agentrl.errors import BadArguments
from agentrl.message import ToolCall
from agentrl.tooling import tool, tools_of

HUGE = 10**400


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: float = 0.0

    @field_validator("x")
    @classmethod
    def _near(cls, value):
        if value == 13:
            raise ZeroDivisionError("a validator of the author's own")
        if value > 99:
            raise ValueError("too far")
        return value


class Path(BaseModel):
    points: list[Point]
    closed: bool = False


@dataclass
class Box:
    width: int
    inside: Point | None = None


class Row(TypedDict):
    name: str


class Everything:
    @tool
    def see(
        self,
        path: Path = Path(points=[]),  # noqa: B008 (a default that could be shared)
        box: Box | None = None,
        colour: Colour = Colour.RED,
        size: Literal["s", "m", 3] = "s",
        number: int | str = 0,
        whole: int = 0,
        small: Annotated[int, Field(ge=0, lt=10, description="below ten")] = 0,
        real: float = 0.0,
        any_real: Annotated[float, Field(allow_inf_nan=True)] = 0.0,
        flag: bool = False,
        text: str = "",
        words: list[str] | None = None,
        numbers: tuple[float, ...] = (),
        table: dict[str, int] | None = None,
        free: Any = None,
        row: Row | None = None,
        day: date | None = None,
        shared: list[int] = [],  # noqa: B006 (what a policy's call must not change)
    ) -> str:
        """See everything.

        Args:
            text: words.
        """
        self.seen = {name: value for name, value in locals().items() if name != "self"}
        shared.append(1)
        return "seen"


SPEC = tools_of(Everything)["see"]


def bind(**arguments):
    return SPEC.check(arguments)


def run(max_arguments=100_000, **arguments):
    everything = Everything()
    tools = {"see": SPEC.bound(everything)}
    calls = [ToolCall("see", arguments)]
    ((outcome,), _) = asyncio.run(
        run_calls(tools, calls, max_chars=999, max_arguments=max_arguments)
    )
    return outcome


def test_models_stay_models_however_deep_they_are():
    seen = bind(path={"points": [{"x": 1}, {"x": "2"}]}, box={"width": 3, "inside": {"x": 4}})
    assert seen["path"] == Path(points=[Point(x=1), Point(x=2)])
    assert seen["box"] == Box(3, Point(x=4))
    assert type(seen["box"].inside) is Point


FITS = [
    ("colour", "blue", Colour.BLUE),
    ("size", 3, 3),
    ("number", 3, 3),
    ("number", "3", "3"),
    ("whole", "3", 3),
    ("whole", 3.0, 3),
    ("whole", -HUGE, -HUGE),
    ("real", "0.5", 0.5),
    ("real", 2, 2.0),
    ("any_real", "inf", math.inf),
    ("flag", "true", True),
    ("flag", 0, False),
    ("text", "žluťoučký 🐎 \u202e", "žluťoučký 🐎 \u202e"),
    ("words", None, None),
    ("words", ["ä"], ["ä"]),
    ("numbers", [1, "2"], (1.0, 2.0)),
    ("table", {"ключ": "7"}, {"ключ": 7}),
    ("free", {"a": [True, None]}, {"a": [True, None]}),
    ("row", {"name": "n"}, {"name": "n"}),
    ("day", "2026-11-30", date(2026, 11, 30)),
]


@pytest.mark.parametrize(("name", "given", "seen"), FITS, ids=range(len(FITS)))
def test_what_fits_arrives_as_the_hint_says(name, given, seen):
    found = bind(**{name: given})[name]
    assert (found, type(found)) == (seen, type(seen))


MISFITS = [
    ("path", [], "path: Input should be a valid dictionary"),
    ("path", {"points": [{"x": 100}]}, "path.points.0.x: Value error, too far"),
    ("path", {"points": [{}]}, "path.points.0.x: Field required"),
    ("box", {"width": "wide"}, "box.width: Input should be a valid integer"),
    ("colour", "green", "colour: Input should be 'red' or 'blue'"),
    ("size", "xl", "size: Input should be 's', 'm' or 3"),
    ("number", 1.5, "number"),
    ("whole", True, "whole: Input should be a number, not true or false"),
    ("whole", 1.5, "whole: Input should be a valid integer"),
    ("whole", "three", "whole: Input should be a valid integer"),
    ("whole", "9" * 5000, "whole: "),
    ("whole", None, "whole: "),
    ("small", 10, "small: Input should be less than 10"),
    ("small", False, "small: Input should be a number"),
    ("real", True, "real: Input should be a number"),
    ("real", math.nan, "real: Input should be a finite number"),
    ("real", "-inf", "real: Input should be a finite number"),
    ("real", HUGE, "real: "),
    ("flag", "perhaps", "flag: Input should be a valid boolean"),
    ("text", 3, "text: Input should be a valid string"),
    ("text", None, "text: Input should be a valid string"),
    ("words", "one", "words: Input should be a valid list"),
    ("words", [1], "words.0: Input should be a valid string"),
    ("numbers", [math.inf], "numbers.0: Input should be a finite number"),
    ("numbers", [True], "numbers.0: Input should be a number"),
    ("table", {"a": True}, "table.a: Input should be a number"),
    ("row", {}, "row.name: Field required"),
    ("schön", 1, "schön: Extra inputs are not permitted"),
    ("self", 1, "self: Extra inputs are not permitted"),
    ("a0", 1, "a0: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("name", "given", "words"), MISFITS, ids=range(len(MISFITS)))
def test_what_does_not_fit_is_told_by_its_name(name, given, words):
    with pytest.raises(BadArguments) as caught:
        bind(**{name: given})
    text = str(caught.value)
    assert text.startswith(f"see: bad arguments. {words}")
    assert "Parameters: path, box, colour," in text


def test_a_default_is_never_shared_between_calls():
    everything = Everything()
    for _ in range(2):
        SPEC.bound(everything).fn(**bind())
        assert everything.seen["shared"] == [1]
    assert bind()["path"] is not None


def test_descriptions_come_from_the_docstring_or_the_hint():
    properties = SPEC.parameters["properties"]
    assert properties["small"]["description"] == "below ten"
    assert properties["text"]["description"] == "words."
    assert (properties["small"]["minimum"], properties["small"]["exclusiveMaximum"]) == (0, 10)


def test_arguments_that_are_too_long_or_too_deep_are_refused_before_the_tool_runs():
    deep = []
    for _ in range(10_000):
        deep = [deep]
    for arguments, words in (
        ({"text": "ä" * 1_000_000}, "the arguments are too long"),
        ({"free": list(range(100_000))}, "the arguments are too long"),
        ({"k" * 1_000_000: 1}, "the arguments are too long"),
        ({"whole": 10**400_000}, "the arguments are too long"),
        ({"free": deep}, f"nested over {MAX_DEPTH} levels deep"),
    ):
        outcome = run(**arguments)
        assert outcome.status == "bad_arguments"
        assert words in outcome.content
        assert len(outcome.content) <= MAX_COMPLAINT
    assert run(text="a" * 90_000).status == "ok"
    assert run(max_arguments=10, text="a" * 20).status == "bad_arguments"


def test_arguments_that_hold_themselves_are_refused():
    ring: list[Any] = []
    ring.append(ring)
    assert "levels deep" in run(free=ring).content


def test_a_validator_that_breaks_is_the_tools_failure():
    outcome = run(path={"points": [{"x": 13}]})
    assert outcome.status == "error"
    assert outcome.content.startswith("see failed: ZeroDivisionError: a validator")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*SPEC.parameters["properties"], "other"]), JSON))
def test_whatever_a_policy_writes_is_bound_or_refused_in_words(arguments):
    try:
        seen = bind(**arguments)
    except BadArguments as error:
        said = str(error)
    else:
        said = "" if set(arguments) <= set(seen) else "something was dropped"
    assert not said or said.startswith("see: bad arguments. ")


class Picky(BaseModel):
    """It brings code along."""

    x: int

    @field_validator("x")
    @classmethod
    def look(cls, x):
        return x


class Hints:
    @tool
    def plain(
        self,
        a: int,
        b: Annotated[float | None, Field(gt=0)] = None,
        c: list[dict[str, Literal["x", "y"]]] | None = None,
        d: Annotated[str, Field(pattern="^(a+)+$", max_length=9)] = "a",
        e: Any = (),
    ) -> str:
        """Take what JSON has."""
        return ""

    @tool
    def model(self, a: list[Picky]) -> str:
        """Take a model."""
        return ""

    @tool
    def validator(self, a: Annotated[int, AfterValidator(abs)]) -> str:
        """Take what a function lets through."""
        return ""

    @tool
    def predicate(self, a: list[Annotated[int, Predicate(bool)]]) -> str:
        """Take what a function says yes to."""
        return ""


def test_only_hints_that_bring_no_code_along_are_checked_at_once():
    assert {name: spec.quick for name, spec in tools_of(Hints).items()} == {
        "plain": True,
        "model": False,
        "validator": False,
        "predicate": False,
    }
