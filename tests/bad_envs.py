"""Environments with one mistake each, for the checks that must find it; Good has none."""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel

from agentrl.env import ToolEnv
from agentrl.errors import ToolError
from agentrl.task import ListTasks, ProceduralTasks, Task
from agentrl.tooling import ToolResult, tool

HOLD = threading.Event()
"""Set at the end of the tests, so that what hangs may end."""


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def _task(i: int) -> Task:
    word = f"{chr(97 + i % 26)}{i}x"
    return Task(
        f"How is box {i} labelled?",
        word,
        reference=(call("look", box=i), word),
    )


class Good(ToolEnv):
    """Labels of boxes, read one at a time."""

    max_turns = 4

    @classmethod
    def tasks(cls, split):
        return ListTasks([_task(i) for i in range(200)], split=split)

    def start(self, task):
        self.looked = 0

    @tool
    def look(self, box: int) -> str:
        """Read the label of a box.

        Args:
            box: Its number.
        """
        self.looked += 1
        if not 0 <= box < 200:
            raise ToolError("there is no such box.")
        return str(_task(box).answer)

    def reward(self, task, trajectory):
        return {"correct": float(trajectory.answer.strip() == task.answer)}


class HangsInStart(Good):
    def start(self, task):
        HOLD.wait(20)


class WaitsInStart(Good):
    async def start(self, task):
        await asyncio.sleep(20)


class HangsInInit(Good):
    def __init__(self):
        while not HOLD.is_set():
            time.sleep(0.01)


class RaisesInReward(Good):
    def reward(self, task, trajectory):
        return 1 / len(trajectory.answer)


class RewardsGarbage(Good):
    def reward(self, task, trajectory):
        return "a lot"


class StartsWithGarbage(Good):
    def start(self, task):
        return 3


class HasGarbageForTasks(Good):
    @classmethod
    def tasks(cls, split):
        return ["What is it?"]


class HasNoTestTasks(Good):
    @classmethod
    def tasks(cls, split):
        return ListTasks([_task(1)] if split == "train" else [])


class EndsTheProgram(Good):
    @classmethod
    def tasks(cls, split):
        raise KeyboardInterrupt


class SharesTasks(Good):
    @classmethod
    def tasks(cls, split):
        return ListTasks([_task(i) for i in range(20)])


class ShufflesTasks(Good):
    @classmethod
    def tasks(cls, split):
        return ProceduralTasks(lambda rng: _task(random.randrange(10**6)), 50, 0, split=split)


class HashesTasks(Good):
    @classmethod
    def tasks(cls, split):
        every = {f"word {i}" for i in range(50)}
        return ListTasks([Task(w, w[5:]) for w in every], split=split)


class Prints(Good):
    def start(self, task):
        super().start(task)
        print("starting")  # noqa: T201


class Forks(Good):
    def start(self, task):
        super().start(task)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of the threads
            child = os.fork()
        if not child:
            time.sleep(15)
            os._exit(0)


class LeavesThreads(Good):
    def start(self, task):
        super().start(task)
        threading.Thread(target=HOLD.wait, args=(20,), daemon=True).start()


class LeavesFiles(Good):
    def start(self, task):
        super().start(task)
        self.folder = tempfile.mkdtemp()


class CollectsInTheClass(Good):
    seen: ClassVar[list[int]] = []

    def start(self, task):
        super().start(task)
        self.seen.append(1)


class CountsInTheClass(Good):
    played = 0

    def start(self, task):
        super().start(task)
        type(self).played += 1


class LeavesDescriptors(Good):
    def start(self, task):
        super().start(task)
        self.ends = os.pipe()


class SetsVariables(Good):
    def start(self, task):
        super().start(task)
        os.environ["SECRET_OF_AN_EPISODE"] = "1"


class ChangesFolder(Good):
    def start(self, task):
        super().start(task)
        os.chdir("/")


class SharesState(Good):
    seen: list[str] = []  # noqa: RUF012

    def start(self, task):
        super().start(task)
        self.seen.append(task.id)
        return f"You are number {len(self.seen)}."


class KeepsFromInit(Good):
    """What was looked at in an earlier episode still counts."""

    def __init__(self):
        self.seen = []

    @tool
    def look(self, box: int) -> str:
        """Read the label of a box."""
        if not 0 <= box < 200:
            raise ToolError("there is no such box.")
        self.seen.append(_task(box).answer)
        return self.seen[-1]

    def reward(self, task, trajectory):
        said = trajectory.answer.strip() == task.answer
        return {"correct": float(said and task.answer in self.seen)}


class Notes:
    def __init__(self):
        self.rows = []


class RemembersInAnObject(Good):
    notes = Notes()

    def start(self, task):
        super().start(task)
        self.notes.rows.append(task.id)


NOTED: list[str] = []


class RemembersInTheModule(Good):
    def start(self, task):
        super().start(task)
        NOTED.append(task.id)


SHARED = [
    Task(f"How is box {i} labelled?", _task(i).answer, meta={"played": 0}) for i in range(200)
]


class ChangesItsTask(Good):
    @classmethod
    def tasks(cls, split):
        return ListTasks(SHARED, split=split)

    def start(self, task):
        super().start(task)
        task.meta["played"] += 1


class SaysASet(Good):
    @tool
    def colours(self) -> set[str]:
        """List the colours of boxes."""
        return {"red", "green", "blue", "white", "black"}


class SaysAnAddress(Good):
    @tool
    def shelf(self) -> str:
        """Show the shelf."""
        return repr(object())


class LeavesALoopTask(Good):
    async def start(self, task):
        super().start(task)
        self.waiting = asyncio.get_running_loop().create_task(asyncio.sleep(30))


class LeavesFilesHere(Good):
    @tool
    def note(self) -> str:
        """Write a note."""
        with tempfile.NamedTemporaryFile(dir=".", prefix="note-", delete=False):
            return "noted"


class BreaksOnAChoice(Good):
    @tool
    def sort(self, by: Literal["label", "size"] = "label") -> str:
        """Sort the boxes."""
        return {"label": "a0x b1x"}[by]


class Place(BaseModel):
    shelf: int
    row: int = 0


class BreaksOnAModel(Good):
    @tool
    def put(self, place: Place) -> str:
        """Put the box somewhere."""
        return str(10 // place.row)


class RunsOn(Good):
    @tool(timeout=0.2)
    def shake(self, times: int) -> str:
        """Shake the box."""
        while times > 10 and not HOLD.wait(0.01):
            pass
        return "done"


class BreaksWhereNothingWasSaid(Good):
    def reward(self, task, trajectory):
        return {"correct": float(trajectory.turns[-1].text.strip() == task.answer)}


class BreaksInOtherTasks(Good):
    def reward(self, task, trajectory):
        if task.answer != "a0x" and not trajectory.turns[0].calls:
            raise ValueError("nothing was looked at")
        return super().reward(task, trajectory)


class PaysByTheCall(Good):
    @tool
    def look(self, box: int) -> ToolResult:
        """Read the label of a box."""
        if not 0 <= box < 200:
            raise ToolError("there is no such box.")
        return ToolResult(str(_task(box).answer), reward=0.1)


class TakesAnyAnswer(Good):
    def reward(self, task, trajectory):
        return {"correct": float(task.answer in trajectory.answer.split())}


class TellsFromMeta(Good):
    @classmethod
    def tasks(cls, split):
        every = [(f"Box {i}?", f"b{i}x") for i in range(200)]
        return ListTasks([Task(w, gold, meta={"label": gold}) for w, gold in every], split=split)

    def start(self, task):
        super().start(task)
        return f"(It says {task.meta['label'].upper()}.)"


class DrawsGlobally(Good):
    def start(self, task):
        super().start(task)
        return f"Hint: {np.random.randint(10**6)}"


class Seeds(Good):
    def start(self, task):
        super().start(task)
        random.seed(0)


class PaysEverybody(Good):
    def reward(self, task, trajectory):
        return {"correct": 1.0}


class PaysNobody(Good):
    def reward(self, task, trajectory):
        return {"correct": 0.0}


class PaysTheEmptyAnswer(Good):
    def reward(self, task, trajectory):
        return float(trajectory.answer in task.answer)


class GoesOn(Good):
    def reply(self, turn):
        return "And now?"


class NoReference(Good):
    @classmethod
    def tasks(cls, split):
        return ListTasks([Task(f"Box {i}?", f"b{i}x") for i in range(100)], split=split)


class Mute(Good):
    @tool
    def hum(self) -> str:
        return "hm"


class RaisesInTool(Good):
    @tool
    def divide(self, by: int) -> str:
        """Divide 1 by a number."""
        return str(1 / (by + 1))


class ReturnsNone(Good):
    @tool
    def note(self, text: str) -> None:
        """Write a note."""


class BlocksTheLoop(Good):
    @tool
    async def wait(self) -> str:
        """Wait."""
        time.sleep(1.3)
        return "done"


class NeverTimesOut(Good):
    @tool(timeout=float("inf"))
    def wait(self) -> str:
        """Wait."""
        return "done"


class Endless(Good):
    max_turns = 10**9


class TellsTheAnswer(Good):
    def start(self, task):
        super().start(task)
        return f"(The label is {task.answer}.)"


class AsksWithTheAnswer(Good):
    @classmethod
    def tasks(cls, split):
        every = [Task(f"Box {i} says b{i}x. What?", f"b{i}x") for i in range(200)]
        return ListTasks(every, split=split)


class TellsAProcess(Good):
    """Its tool's process has the answer among its variables."""

    def start(self, task):
        import subprocess
        import sys

        super().start(task)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "input()"],
            stdin=subprocess.PIPE,
            env={**os.environ, "GOLD": str(task.answer)},
        )

    def release(self):
        with self.process as process:
            process.kill()


class WritesMarks(Good):
    def start(self, task):
        super().start(task)
        return "Say <|im_end|> at the end."


class OwnSteps(Good):
    """Gymnasium would warn of what its reset gives."""

    def reset(self, *, seed=None, options=None):
        opening, info = super().reset(seed=seed, options=options)
        return opening[0]["content"], info


class ManySizes(Good):
    """Options, one of which must be given."""

    def __init__(self, size: int, extra: Mapping[str, int] | None = None):
        self.size = size
