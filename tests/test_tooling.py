import asyncio
import contextvars
import threading
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agentrl.calling import clip, run_calls
from agentrl.errors import EnvironmentFault, ToolError, UsageError
from agentrl.message import ToolCall
from agentrl.tooling import ToolResult, tool, tools_of


class Point(BaseModel):
    x: int
    y: int = 0


class Desk:
    """A plain class: tools need no environment."""

    def __init__(self):
        self.seen = []

    @tool
    def add(self, a: int, b: Annotated[int, Field(ge=0)] = 1) -> str:
        """Add two numbers.

        Never fails.

        Args:
            a: the first,
                of any size.
            b: the second.

        Returns:
            their sum.
        """
        return str(a + b)

    def helper(self, a: int) -> str:
        return "not a tool"

    @tool(timeout=0.05, name="slow-one")
    async def slow(self) -> str:
        """Take too long."""
        await asyncio.sleep(60)
        return "never"

    @tool
    def move(self, point: Point, json: Literal["a", "b"] = "a") -> str:
        """Move."""
        return f"{type(point).__name__} {point.x} {json}"

    @tool
    def fail(self, how: str) -> str:
        """Fail."""
        if how == "readable":
            raise ToolError("no such city: " + "x" * 1000)
        if how == "fault":
            raise EnvironmentFault("the database is gone")
        if how == "exit":
            raise SystemExit(3)
        if how == "stop":
            raise StopIteration
        if how == "time":
            raise TimeoutError("inside")
        raise ValueError("bad " + "y" * 100_000)

    @tool
    def give(self, reward: str = "0", terminate: bool = False) -> ToolResult:
        """Reward."""
        return ToolResult("given", float(reward), terminate)

    @tool
    def value(self, kind: str) -> object:
        """Return something that is not text."""
        return {"dict": {"a": "ä"}, "none": None, "half": "\ud800", "long": "z" * 5000}[kind]


SPECS = tools_of(Desk)


def bound(owner):
    return {name: spec.bound(owner) for name, spec in tools_of(type(owner)).items()}


def run(*calls, desk=None, max_chars=8000):
    async def main():
        return await run_calls(bound(desk or Desk()), calls, max_chars=max_chars)

    return asyncio.run(main())


def one(name, **arguments):
    ((outcome,), _) = run(ToolCall(name, arguments))
    return outcome


def test_only_marked_methods_are_tools_in_the_order_they_were_defined():
    assert list(SPECS) == ["add", "slow-one", "move", "fail", "give", "value"]


def test_a_marked_method_can_still_be_called():
    assert Desk().add(1, b=2) == "3"


def test_the_schema_comes_from_hints_and_docstring():
    assert SPECS["add"].schema() == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.\n\nNever fails.",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "description": "the first, of any size."},
                    "b": {
                        "type": "integer",
                        "description": "the second.",
                        "default": 1,
                        "minimum": 0,
                    },
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }


def test_a_subclass_adds_replaces_and_drops_tools():
    class Other(Desk):
        @tool
        def extra(self) -> str:
            """More."""
            return ""

        @tool(timeout=1)
        def add(self, a: str) -> str:
            """Join."""
            return a

        def fail(self, how: str) -> str:
            return "no longer a tool"

    specs = tools_of(Other)
    assert list(specs) == ["add", "slow-one", "move", "give", "value", "extra"]
    assert specs["add"].timeout == 1


def test_a_parameter_without_a_hint_is_refused():
    class Bad:
        @tool
        def f(self, expression) -> str:
            """F."""

    with pytest.raises(UsageError, match=r"Bad\.f: parameter `expression` has no type hint"):
        tools_of(Bad)


def test_parameters_that_cannot_be_named_are_refused():
    class Bad:
        @tool
        def f(self, *words: str) -> str:
            """F."""

    with pytest.raises(UsageError, match="can't be given by name"):
        tools_of(Bad)


def test_a_hint_without_a_schema_is_refused():
    class Bad:
        @tool
        def f(self, lock: threading.Event) -> str:
            """F."""

    with pytest.raises(UsageError, match=r"Bad\.f: parameter `lock` has a type hint that JSON"):
        tools_of(Bad)


def test_a_tool_without_self_is_refused():
    class Bad:
        @tool
        def f() -> str:
            """Forgotten."""

    with pytest.raises(UsageError, match=r"Bad\.f: it takes no self"):
        tools_of(Bad)


def test_a_hint_that_names_nothing_is_refused():
    class Bad:
        @tool
        def f(self, x: "Nowhere") -> str:  # noqa: F821
            """F."""

    with pytest.raises(UsageError, match="'Nowhere' is not defined"):
        tools_of(Bad)


def test_two_tools_with_one_name_are_refused():
    class Bad:
        @tool
        def f(self) -> str:
            """F."""

        @tool(name="f")
        def g(self) -> str:
            """G."""

    with pytest.raises(UsageError, match="two tools are called f"):
        tools_of(Bad)


def test_a_tool_that_yields_is_refused():
    class Bad:
        @tool
        def f(self) -> str:
            """F."""
            yield "a"

    with pytest.raises(UsageError, match=r"Bad\.f: a tool returns its result once"):
        tools_of(Bad)


def test_a_tool_is_a_plain_method_with_a_time_limit_above_zero():
    with pytest.raises(UsageError, match="plain method"):
        tool(staticmethod(len))
    with pytest.raises(UsageError, match="above 0"):
        tool(timeout=0)


def test_arguments_arrive_as_their_types_under_any_name():
    assert one("move", point={"x": 1}, json="b").content == "Point 1 b"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "a: Field required"),
        ({"a": "x"}, "a: "),
        ({"a": 1, "b": -1}, "greater than or equal to 0"),
        ({"a": 1, "c": 2}, "c: Extra inputs"),
        ({"a": 1, "q" * 9999: 2}, "Parameters: a, b"),
    ],
)
def test_bad_arguments_become_a_bounded_message(arguments, word):
    outcome = one("add", **arguments)
    assert outcome.status == "bad_arguments"
    assert word in outcome.content
    assert len(outcome.content) <= 500


def test_an_unknown_tool_is_answered_with_those_that_there_are():
    outcome = one("ad" + "d" * 1)
    assert outcome.status == "bad_arguments"
    outcome = one("addd")
    assert outcome.status == "unknown_tool"
    assert outcome.content.startswith("unknown tool addd. Did you mean add? Available: add, ")


def test_a_method_that_is_not_marked_cannot_be_called():
    assert one("helper", a=1).status == "unknown_tool"


def test_a_malformed_call_is_answered_with_its_problem():
    ((outcome,), _) = run(ToolCall("", {}, "not valid JSON"))
    assert (outcome.status, outcome.content) == ("malformed", "malformed call: not valid JSON")
    assert outcome.message()["role"] == "tool"


def test_what_a_tool_raises_becomes_something_the_policy_can_read():
    assert one("fail", how="other").content.startswith("fail failed: ValueError: bad yyy")
    assert len(one("fail", how="other").content) <= 500
    assert one("fail", how="stop").content.startswith("fail failed: ")
    assert one("fail", how="exit").content == (
        "fail failed: RuntimeError: it tried to end the program with SystemExit"
    )


def test_a_tool_error_speaks_for_itself():
    outcome = one("fail", how="readable")
    assert (outcome.status, outcome.content) == ("error", "no such city: " + "x" * 1000)


def test_a_tool_that_takes_too_long_is_told_from_one_that_raises_timeout_itself():
    assert one("slow-one").status == "timeout"
    assert one("slow-one").content == "slow-one took longer than 0.05 seconds."
    assert one("fail", how="time").content == "fail failed: TimeoutError: inside"


def test_a_thread_that_outlives_its_time_limit_harms_nobody():
    release, ended = threading.Event(), threading.Event()

    class Stuck:
        @tool(timeout=0.05)
        def wait(self) -> str:
            """Wait."""
            release.wait(10)
            ended.set()
            return "late"

    async def main():
        return await run_calls(bound(Stuck()), [ToolCall("wait", {})], max_chars=99)

    ((outcome,), _) = asyncio.run(main())
    assert outcome.status == "timeout"
    release.set()
    assert ended.wait(10)


def test_values_that_are_not_text_become_json():
    assert one("value", kind="dict").content == '{"a": "ä"}'
    assert one("value", kind="none").content == "null"


def test_content_can_always_be_encoded_and_is_bounded():
    assert one("value", kind="half").content == "?"
    ((outcome,), _) = run(ToolCall("value", {"kind": "long"}), max_chars=100)
    assert len(outcome.content) <= 100
    assert "left out" in outcome.content


def test_rewards_and_the_end_come_from_results():
    outcomes, terminate = run(
        ToolCall("give", {"reward": "0.5", "terminate": True}), ToolCall("add", {"a": 1})
    )
    assert [o.reward for o in outcomes] == [0.5, 0.0]
    assert terminate


def test_a_reward_that_is_not_finite_is_the_environments_fault():
    with pytest.raises(EnvironmentFault, match="its reward is nan"):
        run(ToolCall("give", {"reward": "nan"}))


def test_a_cancellation_inside_a_tool_is_the_tools_failure_not_the_episodes_end():
    class Inner(Desk):
        @tool
        async def lost(self) -> str:
            """Wait for something that somebody else cancelled."""
            inner = asyncio.ensure_future(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(inner.cancel)
            await inner
            return ""

    async def main():
        calls = [ToolCall("lost", {}), ToolCall("add", {"a": 1})]
        return await run_calls(bound(Inner()), calls, max_chars=99)

    outcomes, _ = asyncio.run(main())
    assert [o.status for o in outcomes] == ["error", "ok"]
    assert outcomes[0].content.startswith("lost failed: RuntimeError: something that it waited for")


def test_one_failing_tool_cancels_no_other():
    outcomes, _ = run(
        *(
            ToolCall("add" if i % 2 else "fail", {"a": i} if i % 2 else {"how": "x"})
            for i in range(8)
        )
    )
    assert [o.status for o in outcomes] == ["error", "ok"] * 4


def test_a_fault_comes_out_when_all_others_have_finished():
    class Half(Desk):
        @tool
        async def late(self) -> str:
            """Finish last."""
            await asyncio.sleep(0.05)
            self.seen.append("late")
            return ""

    desk = Half()

    async def main():
        calls = [ToolCall("fail", {"how": "fault"}), ToolCall("late", {})]
        await run_calls(bound(desk), calls, max_chars=99)

    with pytest.raises(EnvironmentFault, match="database is gone"):
        asyncio.run(main())
    assert desk.seen == ["late"]


def test_blocking_tools_of_a_turn_run_side_by_side():
    meeting = threading.Barrier(40)

    class Meeting:
        @tool
        def meet(self) -> str:
            """Return when forty have come."""
            meeting.wait(10)
            return "met"

    async def main():
        calls = [ToolCall("meet", {})] * 40
        return await run_calls(bound(Meeting()), calls, max_chars=99)

    outcomes, _ = asyncio.run(main())
    assert {o.content for o in outcomes} == {"met"}


@given(st.permutations(range(4)))
def test_the_order_of_completion_changes_nothing(order):
    class Chain:
        def __init__(self):
            self.turn = [asyncio.Event() for _ in order]

        @tool
        async def wait(self, i: int) -> str:
            """Finish in the order given."""
            place = order.index(i)
            if place:
                await self.turn[place - 1].wait()
            self.turn[place].set()
            return str(i)

    async def main():
        calls = [ToolCall("wait", {"i": i}) for i in range(4)]
        return await run_calls(bound(Chain()), calls, max_chars=99)

    outcomes, _ = asyncio.run(main())
    assert [o.content for o in outcomes] == ["0", "1", "2", "3"]


def test_threads_see_the_context_of_their_episode():
    where = contextvars.ContextVar("where", default="nowhere")

    class Seer:
        @tool
        def look(self) -> str:
            """Look."""
            return where.get()

    async def episode(name):
        where.set(name)
        return await run_calls(bound(Seer()), [ToolCall("look", {})], max_chars=99)

    async def main():
        return await asyncio.gather(episode("a"), episode("b"))

    assert [o.content for outcomes, _ in asyncio.run(main()) for o in outcomes] == ["a", "b"]


def test_cancelling_an_episode_passes_through_its_tools():
    async def main():
        task = asyncio.ensure_future(
            run_calls(bound(Desk()), [ToolCall("slow-one", {})], max_chars=9)
        )
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@given(st.text(), st.integers(1, 60))
def test_clipped_text_is_bounded_and_short_text_stays(text, limit):
    out = clip(text, limit)
    assert len(out) <= limit
    assert out == text or len(text) > limit
