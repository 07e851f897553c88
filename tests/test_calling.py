"""Calls of a turn as the policy wrote them: what runs, in what order, and what it reads."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import math
import sys
import threading
from contextlib import redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from agentrl.author import at_once
from agentrl.calling import MAX_COMPLAINT, MAX_JSON, NOT_RUN, run_calls
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault
from agentrl.message import AssistantTurn, ToolCall
from agentrl.prints import MOST, NOTICE, BoundedStream
from agentrl.task import Task
from agentrl.tooling import ToolResult, tool, tools_of
from agentrl.workers import MOST_LEFT_BY_ONE

BIG = 100_000_000


def bound(owner):
    return {name: spec.bound(owner) for name, spec in tools_of(type(owner)).items()}


def run(owner, *calls, max_chars=200, **how):
    return asyncio.run(run_calls(bound(owner), calls, max_chars=max_chars, **how))


def call(name, /, **arguments):
    return ToolCall(name, arguments)


# What a policy writes, from its text to what came of it


class Log(ToolEnv):
    """It keeps what reached its tools."""

    max_turns = 99
    max_parse_errors = 99

    def start(self, task):
        self.seen = []

    @tool
    def look(self, at: str) -> str:
        """Look."""
        self.seen.append(at)
        return f"at {at}"

    @tool
    def rest(self) -> str:
        """Rest."""
        self.seen.append("rest")
        return "rested"


def tagged(body):
    return f"<tool_call>{body}</tool_call>"


GOOD = tagged('{"name": "look", "arguments": {"at": "a"}}')

TABLE = {
    "sound": (GOOD, ["ok"], ["a"]),
    "two sound": (GOOD + GOOD, ["ok", "ok"], ["a", "a"]),
    "trailing comma": (tagged('{"name": "look", "arguments": {"at": "1",}}'), ["malformed"], []),
    "single quotes": (tagged("{'name': 'look', 'arguments': {'at': 'a'}}"), ["malformed"], []),
    "no arguments": (tagged('{"name": "rest"}'), ["malformed"], []),
    "parameters": (tagged('{"name": "look", "parameters": {"at": "a"}}'), ["malformed"], []),
    "good and bad": (GOOD + tagged("{bad}"), ["ok", "malformed"], ["a"]),
    "bad and good": (tagged("{bad}") + GOOD, ["malformed", "ok"], ["a"]),
    "raw newline": (tagged('{"name": "look", "arguments": {"at": "a\nb"}}'), ["ok"], ["a\nb"]),
    "its own end": (
        tagged('{"name": "look", "arguments": {"at": "</tool_call>"}}'),
        ["ok"],
        ["</tool_call>"],
    ),
    "an array": (tagged('[{"name": "look", "arguments": {"at": "a"}}]'), ["malformed"], []),
    "null": (tagged("null"), ["malformed"], []),
    "null arguments": (tagged('{"name": "rest", "arguments": null}'), ["malformed"], []),
    "list arguments": (tagged('{"name": "rest", "arguments": [1]}'), ["malformed"], []),
    "text arguments": (tagged('{"name": "rest", "arguments": "x"}'), ["malformed"], []),
    "number arguments": (tagged('{"name": "rest", "arguments": 3}'), ["malformed"], []),
    "NaN": (tagged('{"name": "look", "arguments": {"at": NaN}}'), ["malformed"], []),
    "a key twice": (
        tagged('{"name": "look", "arguments": {"at": "a", "at": "b"}}'),
        ["malformed"],
        [],
    ),
    "a code fence": (tagged('```json\n{"name": "rest", "arguments": {}}\n```'), ["ok"], ["rest"]),
    "in reasoning": (f"<think>{GOOD}</think>done", [], []),
    "a quoted example in prose": (f"To look I would write `{GOOD}`, which I need not.", [], []),
    "a quoted example in a block": (f"To look I would write\n```\n{GOOD}\n```", [], []),
    "an example without code marks": (f'As in "{GOOD}".', ["ok"], ["a"]),
    "a name that is no text": (tagged('{"name": 3, "arguments": {}}'), ["malformed"], []),
    "an unknown tool": (tagged('{"name": "lok", "arguments": {}}'), ["unknown_tool"], []),
    "a missing argument": (tagged('{"name": "look", "arguments": {}}'), ["bad_arguments"], []),
    "an extra argument": (
        tagged('{"name": "rest", "arguments": {"for": 1}}'),
        ["bad_arguments"],
        [],
    ),
    "a wrong type": (
        tagged('{"name": "look", "arguments": {"at": ["a"]}}'),
        ["bad_arguments"],
        [],
    ),
    "no ASCII": (tagged('{"name": "look", "arguments": {"at": "ž🐎"}}'), ["ok"], ["ž🐎"]),
    "half a character": (
        tagged('{"name": "look", "arguments": {"\\ud800": 1}}'),
        ["malformed"],
        [],
    ),
    "junk": (tagged("x" * 200_000), ["malformed"], []),
    "a huge argument": (
        tagged(json.dumps({"name": "look", "arguments": {"at": "x" * 200_000}})),
        ["bad_arguments"],
        [],
    ),
}


@pytest.mark.parametrize("row", TABLE)
def test_only_what_the_text_holds_is_run_and_all_of_it_is_answered_briefly(row):
    text, statuses, seen = TABLE[row]
    env = Log()
    env.reset(options={"task": Task("2+2?")})
    messages, *_, info = env.step(text)
    assert [o.status for o in env.turns[0].outcomes] == statuses
    assert env.seen == seen
    assert [m["role"] for m in messages] == ["tool"] * len(statuses)
    assert all(len(m["content"].encode()) <= 2 * MAX_COMPLAINT for m in messages)
    # A mistake is answered, and the episode goes on.
    assert info["stop"] == (None if statuses else "answer")
    env.close()


def test_a_turn_cut_by_length_runs_none_of_its_calls_even_where_they_parse():
    env = Log()
    env.reset(options={"task": Task("2+2?")})
    turn = AssistantTurn("", (call("look", at="a"), call("rest")), finish_reason="length")
    assert env.step(turn)[4]["stop"] == "max_tokens"
    assert env.seen == []
    env.close()


# Order


class Diary:
    """Who began and who ended, in order."""

    def __init__(self):
        self.log = []

    async def _write(self, name):
        self.log.append(f"+{name}")
        await asyncio.sleep(0.01)
        self.log.append(f"-{name}")
        return name

    @tool
    async def free(self, name: str) -> str:
        """Run beside others."""
        return await self._write(name)

    @tool(parallel=False)
    async def alone(self, name: str, end: bool = False) -> ToolResult:
        """Run alone."""
        return ToolResult(await self._write(name), terminate=end)

    @tool
    async def end(self, name: str) -> ToolResult:
        """End the episode."""
        return ToolResult(await self._write(name), terminate=True)


FIVE = [call("free", name="a"), call("free", name="b"), call("alone", name="c")]
FIVE += [call("free", name="d"), call("free", name="e")]


def test_calls_run_side_by_side_and_one_that_must_be_alone_divides_them():
    diary = Diary()
    outcomes, _ = run(diary, *FIVE)
    assert [o.content for o in outcomes] == list("abcde")
    assert diary.log == ["+a", "+b", "-a", "-b", "+c", "-c", "+d", "+e", "-d", "-e"]


def test_an_environment_can_have_all_its_calls_run_one_after_the_other():
    diary = Diary()
    outcomes, _ = run(diary, *FIVE, parallel=False)
    assert [o.content for o in outcomes] == list("abcde")
    assert diary.log == [sign + name for name in "abcde" for sign in "+-"]

    class Serial(Log):
        parallel_tools = False
        together = most = 0

        @tool
        async def count(self) -> int:
            """Count who is here."""
            self.together += 1
            self.most = max(self.most, self.together)
            await asyncio.sleep(0.001)
            self.together -= 1
            return self.most

    env = Serial()
    env.reset(options={"task": Task("2+2?")})
    messages, *_ = env.step(tagged('{"name": "count", "arguments": {}}') * 5)
    assert [m["content"] for m in messages] == ["1"] * 5
    env.close()


def test_when_a_call_ends_the_episode_those_beside_it_finish_and_later_ones_are_not_run():
    diary = Diary()
    outcomes, ended = run(diary, call("end", name="a"), call("free", name="b"), *FIVE[2:])
    assert ended
    assert [o.content for o in outcomes] == ["a", "b", NOT_RUN, NOT_RUN, NOT_RUN]
    assert diary.log == ["+a", "+b", "-a", "-b"]
    outcomes, _ = run(Diary(), call("alone", name="a", end=True), ToolCall("", {}, "no JSON"))
    assert [o.status for o in outcomes] == ["ok", "error"]


# Never in each other's way


class Crowd(ToolEnv):
    """Tools that wait until every episode has come."""

    def __init__(self, door):
        self.door = door

    @tool
    async def wait(self) -> str:
        """Wait on the loop."""
        self.door.here += 1
        if self.door.here == self.door.size:
            self.door.all.set()
        await self.door.all.wait()
        return "all"

    @tool
    def block(self) -> str:
        """Wait in a thread."""
        self.door.barrier.wait()
        return "all"


class Door:
    def __init__(self, size):
        self.size, self.here = size, 0
        self.all, self.barrier = asyncio.Event(), threading.Barrier(size, timeout=60)


@pytest.mark.parametrize("name", ["wait", "block"])
def test_the_tools_of_256_episodes_run_at_the_same_time(name):
    async def episode(door):
        env = Crowd(door)
        await env.areset(options={"task": Task("2+2?")})
        messages, *_ = await env.astep(AssistantTurn("", (call(name),)))
        return messages[0]["content"]

    async def main():
        door = Door(256)
        return await asyncio.gather(*(episode(door) for _ in range(256)))

    assert set(asyncio.run(main())) == {"all"}


class Slow(BaseModel):
    """Its check waits at a door that the loop opens."""

    word: str

    @field_validator("word")
    @classmethod
    def wait(cls, word):
        return str(DOOR.get().wait(60))


class Unhurried:
    def __str__(self):
        return str(DOOR.get().wait(60))


DOOR = ContextVar("door")


class Late:
    """Its arguments, or its value, take as long as the door is shut."""

    @tool(timeout=60)
    async def checks(self, slow: Slow) -> str:
        """Its arguments are slow."""
        return slow.word

    @tool(timeout=60)
    async def shows(self) -> Any:
        """Its value is slow."""
        return [Unhurried()]

    @tool(timeout=60)
    def gives(self) -> Any:
        """A value that is slow, later."""
        return self._later()

    async def _later(self):
        return [Unhurried()]


LATE = [call("checks", slow={"word": "a"}), call("shows"), call("gives")]


def late(asked, *, opens, **how):
    async def main():
        door = threading.Event()
        DOOR.set(door)
        if opens:
            asyncio.get_running_loop().call_later(0.05, door.set)
        tools = {name: replace(spec, **how) for name, spec in bound(Late()).items()}
        (outcome,), _ = await run_calls(tools, [asked], max_chars=200)
        door.set()
        return outcome

    return asyncio.run(main())


@pytest.mark.parametrize("asked", LATE, ids=lambda asked: asked.name)
def test_the_loop_goes_on_while_arguments_are_checked_and_values_become_text(asked):
    outcome = late(asked, opens=True)
    assert (outcome.status, outcome.content.strip('[]"')) == ("ok", "True")


@pytest.mark.parametrize("asked", LATE, ids=lambda asked: asked.name)
def test_checking_arguments_and_making_text_of_values_is_within_the_time_limit(asked):
    assert late(asked, opens=False, timeout=0.05).status == "timeout"


class Seen:
    """It tells in which thread its arguments are looked at, and what is on record."""

    def __init__(self):
        self.threads = set()

    def check(self, arguments):
        self.threads.add(threading.current_thread() is threading.main_thread())
        return dict(arguments)

    @tool
    async def change(self, x: Any, inner: dict[str, Any]) -> str:
        """Change what it is given."""
        x.append("changed")
        inner["a"].append("changed")
        return "done"

    @tool
    def change_in_thread(self, x: Any, inner: dict[str, Any]) -> str:
        """Change what it is given."""
        x.append("changed")
        inner["a"].append("changed")
        return "done"


@pytest.mark.parametrize(("quick", "size", "on_loop"), [(True, 9, True), (True, 20_000, False)])
def test_a_few_arguments_of_plain_types_are_looked_at_without_a_thread(quick, size, on_loop):
    seen = Seen()

    async def fn(**arguments):
        return "done"

    spec = replace(tools_of(Seen)["change"], fn=fn, check=seen.check, quick=quick)
    calls = [call("change", x="y" * size)]
    asyncio.run(run_calls({"change": spec}, calls, max_chars=200))
    assert seen.threads == {on_loop}


@pytest.mark.parametrize("name", ["change", "change_in_thread"])
@pytest.mark.parametrize("checked", [True, False], ids=["by hints", "by dict"])
def test_what_a_tool_does_to_its_arguments_changes_no_record(name, checked):
    written = call(name, x=[1], inner={"a": [{"b": 2}]})
    tools = bound(Seen())
    if not checked:
        tools[name] = replace(tools[name], check=dict)
    (outcome,), _ = asyncio.run(run_calls(tools, [written], max_chars=200))
    assert outcome.content == "done"
    assert written == call(name, x=[1], inner={"a": [{"b": 2}]})


class Stuck(ToolEnv):
    """One of its tools waits for a door that is shut."""

    max_turns = max_tool_calls = 10_000

    def __init__(self, door):
        self.door = door

    @tool(timeout=0.02)
    def hang(self) -> str:
        """Wait in a thread."""
        self.door.wait(60)
        return "through"

    @tool
    def rest(self) -> str:
        """Rest in a thread."""
        return "rested"

    @tool
    async def think(self, of: str) -> str:
        """Need no thread."""
        return of


def test_an_episode_whose_threads_hang_may_leave_few_behind_and_disturbs_no_other():
    async def main(door):
        env, other = Stuck(door), Stuck(door)
        for one in (env, other):
            await one.areset(options={"task": Task("2+2?")})
        for _ in range(20):
            await env.astep(AssistantTurn("", (call("hang"),) * 4))
        few = env._share.left
        last = [o.content for o in env.turns[-1].outcomes]
        await env.astep(AssistantTurn("", (call("rest"), call("think", of="x"))))
        await other.astep(AssistantTurn("", (call("rest"),)))
        told = [o.content for one in (env, other) for o in one.turns[-1].outcomes]
        door.set()
        while env._share.left:
            await asyncio.sleep(0.001)
        await env.astep(AssistantTurn("", (call("rest"),)))
        assert env.end is None
        return few, last, told, env.turns[-1].outcomes[0].content

    few, last, told, after = asyncio.run(main(threading.Event()))
    refused = f"not run. {few} calls before it go on although their time is up."
    assert few == MOST_LEFT_BY_ONE
    assert last == [f"hang: {refused}"] * 4
    assert told == [f"rest: {refused}", "x", "rested"]
    assert after == "rested"


def test_interleaved_episodes_see_their_own_state():
    class Pad(ToolEnv):
        """A scratch pad."""

        def start(self, task):
            self.word = task.prompt

        @tool
        def recall(self) -> str:
            """Say the word."""
            return self.word

    async def episode(i):
        env = Pad()
        await env.areset(options={"task": Task(f"word {i}")})
        said = []
        for _ in range(3):
            messages, *_ = await env.astep(AssistantTurn("", (call("recall"),) * 2))
            said += [m["content"] for m in messages]
        return set(said) == {f"word {i}"}

    async def main():
        return await asyncio.gather(*(episode(i) for i in range(32)))

    assert all(asyncio.run(main()))


def test_a_tool_that_plays_an_episode_of_its_own_meets_no_lock():
    class Nested(ToolEnv):
        """An environment whose tool plays another one."""

        def __init__(self, depth):
            self.depth = depth

        @tool
        async def ask(self) -> str:
            """Ask the next one."""
            if not self.depth:
                return "the last"
            env = Nested(self.depth - 1)
            await env.areset(options={"task": Task("2+2?")})
            messages, *_ = await env.astep(AssistantTurn("", (call("ask"),)))
            return messages[0]["content"]

    assert run(Nested(5), call("ask"))[0][0].content == "the last"


# What comes back


class Colour(BaseModel):
    name: str
    since: date = date(2026, 1, 2)


@dataclass
class Pair:
    left: int
    right: float


class Unspeakable(Exception):
    """Its message can't be had."""

    def __str__(self):
        raise ValueError("no words")


class Ending(Exception):
    """Its message ends the program."""

    def __str__(self):
        raise SystemExit(3)


class Giver:
    """Tools that return and raise what they are told to, sync and async."""

    def __init__(self, value=None):
        self.value = value

    def _give(self):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value() if callable(self.value) else self.value

    @tool
    def sync(self) -> Any:
        """Give."""
        return self._give()

    @tool
    async def later(self) -> Any:
        """Give."""
        return self._give()


@pytest.mark.parametrize("name", ["sync", "later"])
def test_values_become_text_as_json_shows_them(name):
    for value, text in (
        ("", ""),
        (None, "null"),
        (math.nan, "NaN"),
        ([1.5, -math.inf], "[1.5, -Infinity]"),
        (Colour(name="ž"), '{"name": "ž", "since": "2026-01-02"}'),
        ([Pair(1, 2.0)], '[{"left": 1, "right": 2.0}]'),
        ({"when": date(2026, 1, 2), "who": {1}}, '{"when": "2026-01-02", "who": [1]}'),
        (ToolResult({"a": 1}), '{"a": 1}'),
        (range(2), "range(0, 2)"),
        (b"ab", '"ab"'),
    ):
        outcome = run(Giver(value), call(name))[0][0]
        assert (outcome.status, outcome.content.strip('"')) == ("ok", text.strip('"'))


@pytest.mark.parametrize("name", ["sync", "later"])
@pytest.mark.parametrize(
    "error",
    [
        Unspeakable(),
        Ending(),
        OSError("two\nlines"),
        ValueError("x" * BIG),
        ExceptionGroup("many", [ValueError("a")] * 3),
        SystemExit("bye"),
        RecursionError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_is_raised_becomes_one_bounded_line_for_the_policy(name, error):
    outcome = run(Giver(error), call(name))[0][0]
    assert outcome.status == "error"
    assert outcome.content.startswith(f"{name} failed: ")
    assert "two\nlines" not in outcome.content
    assert len(outcome.content) <= MAX_COMPLAINT


@pytest.mark.parametrize("name", ["sync", "later"])
def test_a_value_of_a_hundred_megabytes_is_cut_at_once(name):
    for value in (lambda: "x" * BIG, lambda: ["y" * 1000] * (BIG // 1000)):
        outcome = run(Giver(value), call(name))[0][0]
        assert outcome.status == "ok"
        assert len(outcome.content) <= 200
    assert "left out" in outcome.content


def test_an_iterator_that_never_ends_is_not_read():
    outcome = run(Giver(lambda: itertools.count()), call("sync"))[0][0]
    assert outcome.content == '"count(0)"'


def test_a_long_value_is_written_out_only_as_far_as_it_could_be_read():
    asked = []

    class Endless(list):
        def __iter__(self):
            for i in range(10**9):
                asked.append(i)
                yield "x" * 1000

    run(Giver(Endless([1])), call("sync"))
    assert len(asked) <= MAX_JSON // 1000 + 2


@pytest.mark.parametrize("name", ["sync", "later"])
@pytest.mark.parametrize(
    "result",
    [
        ToolResult("", reward=math.nan),
        ToolResult("", reward=-math.inf),
        ToolResult("", reward="1"),
        ToolResult("", reward=10**400),
        ToolResult("", metrics={"share": math.nan}),
        ToolResult("", metrics={"share": None}),
    ],
    ids=lambda r: f"{r.reward}"[:5] + f"{dict(r.metrics)}",
)
def test_a_reward_or_metric_that_is_no_finite_number_is_the_environments_fault(name, result):
    with pytest.raises(EnvironmentFault, match=r"its (reward|share) is .* finite numbers"):
        run(Giver(result), call(name))


def test_an_error_that_a_tool_returns_is_read_as_it_is_and_counted():
    outcome = run(Giver(ToolResult("no such city", is_error=True)), call("sync"))[0][0]
    assert (outcome.status, outcome.content) == ("error", "no such city")


@pytest.mark.parametrize("name", ["sync", "later"])
def test_a_tool_that_prints_a_hundred_megabytes_disturbs_nobody(name):
    def shout():
        for _ in range(100):
            print("x" * (BIG // 100))  # noqa: T201
        return "done"

    stream = io.StringIO()
    with redirect_stdout(BoundedStream(stream)):
        outcome = run(Giver(shout), call(name))[0][0]
        print("and afterwards")  # noqa: T201
    assert outcome.content == "done"
    assert stream.getvalue() == "x" * MOST + NOTICE + "and afterwards\n"


class Doubler:
    """One tool that is quick with small numbers."""

    @tool
    @at_once(lambda number: number < 100)
    def double(self, number: int) -> str:
        """Double a number."""
        sys.stdout.write("x" * 2 * MOST)
        if number < 0:
            raise ValueError("below 0")
        return f"{2 * number} {threading.current_thread() is threading.main_thread()}"


def test_a_call_that_is_done_at_once_needs_no_thread_and_is_treated_as_any_other():
    numbers = [4, "5", 400, -1, "six", True]
    stream = io.StringIO()
    with redirect_stdout(BoundedStream(stream)):
        outcomes, _ = run(Doubler(), *(call("double", number=n) for n in numbers))
    assert [o.content for o in outcomes[:3]] == ["8 True", "10 True", "800 False"]
    assert outcomes[3].content == "double failed: ValueError: below 0"
    assert [o.status for o in outcomes[3:]] == ["error", "bad_arguments", "bad_arguments"]
    assert stream.getvalue() == ("x" * MOST + NOTICE) * 4


@pytest.mark.parametrize("beside", [0, 1])
def test_a_fault_comes_out_of_a_call_alone_as_of_one_among_others(beside):
    class Broken:
        @tool
        async def broken(self) -> str:
            """Break."""
            raise EnvironmentFault("no disk")

    with pytest.raises(EnvironmentFault, match="no disk"):
        run(Broken(), *[call("broken")] * (1 + beside))
