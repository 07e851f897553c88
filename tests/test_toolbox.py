"""Toolboxes: tools with state of their own, beside those of an environment."""

from __future__ import annotations

import asyncio
import json

import pytest

from agentrl.env import ToolEnv
from agentrl.errors import BadArguments, EnvironmentFault, ToolError, UsageError
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolSpec, tool

TASK = Task("2+2?", "4")


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class Notes(Toolbox):
    """A notebook."""

    def __init__(self, log=None, breaks=""):
        self.log = [] if log is None else log
        self.breaks = breaks

    def start(self, task):
        self.log.append("notes start")
        self.words = []
        if self.breaks == "start":
            raise RuntimeError("no paper")

    async def release(self):
        self.log.append("notes release")
        if self.breaks == "release":
            raise RuntimeError("torn")

    @tool
    def note(self, word: str) -> str:
        """Write a word down."""
        self.words.append(word)
        return " ".join(self.words)


class Clock(Toolbox):
    """A clock that only counts."""

    def __init__(self, log=None):
        self.log = [] if log is None else log
        self.count = 0

    async def start(self, task):
        self.log.append("clock start")

    def release(self):
        self.log.append("clock release")

    @tool
    async def tick(self) -> int:
        """Count."""
        self.count += 1
        return self.count


class Desk(ToolEnv):
    """A desk with what lies on it."""

    def __init__(self, *boxes):
        self.boxes = boxes
        self.log = []

    def toolboxes(self):
        self.log.append("toolboxes")
        return self.boxes

    def start(self, task):
        self.log.append("start")

    def release(self):
        self.log.append("release")

    @tool
    def own(self) -> str:
        """Do something of the desk's own."""
        return "own"


def test_tools_of_boxes_are_tools_of_the_environment_after_its_own():
    env = Desk(Notes(), Clock())
    assert [s["function"]["name"] for s in env.tool_schemas()] == ["own", "note", "tick"]
    env.reset(options={"task": TASK})
    messages, *_ = env.step(call("note", word="a") + call("tick") + call("own") + call("not"))
    assert [m["content"] for m in messages] == [
        "a",
        "1",
        "own",
        "unknown tool not. Did you mean note? Available: own, note, tick.",
    ]
    env.close()


def test_boxes_start_before_their_environment_and_are_released_after_it_in_opposite_order():
    env = Desk()
    env.boxes = (Notes(env.log), Clock(env.log))
    for _ in range(2):
        env.reset(options={"task": TASK})
    env.close()
    env.close()
    episode = ["notes start", "clock start", "start", "release", "clock release", "notes release"]
    assert env.log == ["toolboxes", *episode, *episode]


def test_a_box_begins_each_episode_as_its_start_says():
    env = Desk(Notes())
    for _ in range(2):
        env.reset(options={"task": TASK})
        assert env.step(call("note", word="x"))[0][0]["content"] == "x"
    env.close()


def test_a_box_that_cannot_start_is_given_back_with_those_before_it():
    env = Desk()
    env.boxes = (Clock(env.log), Notes(env.log, breaks="start"), Clock(env.log))
    env.boxes[2].tools = dict
    with pytest.raises(EnvironmentFault, match=r"Notes\.start: RuntimeError: no paper"):
        env.reset(options={"task": TASK})
    env.close()
    assert env.log[1:] == ["clock start", "notes start", "notes release", "clock release"]


def test_a_release_that_breaks_keeps_no_other_from_its_own():
    env = Desk()
    env.boxes = (Clock(env.log), Notes(env.log, breaks="release"))
    env.reset(options={"task": TASK})
    with pytest.raises(EnvironmentFault, match=r"Notes\.release: RuntimeError: torn"):
        env.close()
    env.close()
    assert env.log[-3:] == ["release", "notes release", "clock release"]


def test_a_release_that_is_cancelled_leaves_the_others_to_the_next_one():
    class Stuck(Clock):
        async def release(self):
            await asyncio.sleep(60)

    async def main():
        env = Desk()
        env.boxes = (Notes(env.log), Stuck())
        await env.areset(options={"task": TASK})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(env.arelease(), 0.01)
        assert env.log[-1] == "release"
        await env.arelease()
        return env.log

    assert asyncio.run(main())[-1] == "notes release"


@pytest.mark.parametrize(
    "boxes", [[Notes(), Notes()], [type("Own", (Toolbox,), {"own": Desk.own})()]]
)
def test_a_name_that_two_have_is_refused(boxes):
    with pytest.raises(UsageError, match=r"Desk: two tools are called (note|own)"):
        Desk(*boxes).reset(options={"task": TASK})


def test_what_is_no_box_is_refused():
    with pytest.raises(UsageError, match=r"Desk\.toolboxes: type is no Toolbox"):
        Desk(Notes).reset(options={"task": TASK})


def test_a_box_of_two_environments_is_refused():
    box = Notes()
    first = Desk(box)
    first.tool_schemas()
    with pytest.raises(UsageError, match="this Notes belongs to another Desk"):
        Desk(box).tool_schemas()


def test_boxes_that_cannot_be_made_are_the_environments_fault():
    class Broken(Desk):
        def toolboxes(self):
            raise OSError("no such folder")

    with pytest.raises(EnvironmentFault, match=r"Broken\.toolboxes: OSError: no such folder"):
        Broken().reset(options={"task": TASK})


class Found(Toolbox):
    """Tools that are known only at run time."""

    def tools(self):
        schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        spec = ToolSpec("say", "Say it.", schema, 1.0, self._say, self._check)
        return {"say": spec}

    async def _say(self, **arguments):
        if arguments == {"x": "no"}:
            raise ToolError("I won't.")
        return arguments

    def _check(self, arguments):
        if "x" not in arguments:
            raise BadArguments("say: x is missing.")
        return dict(arguments)


def test_a_box_may_know_its_tools_only_at_run_time():
    env = Desk(Found())
    env.reset(options={"task": TASK})
    messages, *_ = env.step(call("say", x="ä") + call("say") + call("say", x="no"))
    assert [m["content"] for m in messages] == ['{"x": "ä"}', "say: x is missing.", "I won't."]
    assert [o.status for o in env.turns[0].outcomes] == ["ok", "bad_arguments", "error"]
    env.close()


class Shelf(Toolbox):
    """Tools that are named by the task; those after a bar come later."""

    varies = True

    def __init__(self):
        self.asked = 0
        self.names = []

    def start(self, task):
        self.names = task.answer

    def tools(self):
        self.asked += 1
        now, _, late = " ".join(self.names).partition(" | ")
        made = [(name, True) for name in now.split()] + [(name, False) for name in late.split()]
        return {
            name: ToolSpec(
                name, "", {"type": "object"}, 1.0, lambda n=name: f"this is {n}", listed=listed
            )
            for name, listed in made
        }


def names(env):
    return [schema["function"]["name"] for schema in env.tool_schemas()]


def test_tools_of_a_box_that_varies_are_those_of_the_task_that_is_played():
    env = Desk(Shelf())
    assert names(env) == ["own"]
    for wanted in (["saw", "axe"], ["pen"]):
        env.reset(options={"task": Task("?", wanted)})
        assert names(env) == ["own", *wanted]
        assert env.step(call(wanted[0]))[0][0]["content"] == f"this is {wanted[0]}"
        assert "unknown tool hammer" in env.step(call("hammer"))[0][0]["content"]
    env.close()


def test_a_box_that_does_not_vary_is_asked_for_its_tools_once():
    box = Shelf()
    box.varies = False
    env = Desk(box)
    for _ in range(3):
        env.reset(options={"task": TASK})
    env.close()
    assert box.asked == 1


def test_a_name_that_two_have_in_one_task_alone_is_the_environments_fault():
    env = Desk(Shelf())
    with pytest.raises(EnvironmentFault, match="two tools are called own"):
        env.reset(options={"task": Task("?", ["own"])})
    env.close()
    assert env.log == ["toolboxes"]


def test_an_unlisted_tool_can_be_called_but_no_prompt_or_hint_tells_of_it():
    env = Desk(Shelf())
    env.reset(options={"task": Task("?", ["saw", "|", "axe"])})
    assert names(env) == ["own", "saw"]
    assert env.step(call("axe"))[0][0]["content"] == "this is axe"
    hint = env.step(call("axes"))[0][0]["content"]
    assert hint == "unknown tool axes. Available: own, saw."
    env.close()
