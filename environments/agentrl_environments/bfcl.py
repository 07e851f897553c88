"""The multi-turn tasks of the Berkeley Function Calling Leaderboard.

In    entries and classes of the package bfcl-eval, which `make bfcl` adds
Out   Bfcl: functions of simulated services, a user of several turns; reward 1 where the
      leaderboard's own checker would accept the episode
Not   the leaderboard's tasks to train on: those to train on are made up in its worlds
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from agentrl.env import ToolEnv
from agentrl.errors import BadArguments, UsageError, suggestion
from agentrl.message import Turn
from agentrl.task import ListTasks, ProceduralTasks, Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.tooling import TIMEOUT, ToolResult, ToolSpec
from agentrl.trajectory import Trajectory
from agentrl_environments._bfcl_calls import words
from agentrl_environments._bfcl_data import CATEGORIES, Entry, entries, functions, package
from agentrl_environments._bfcl_made import entry_of, made
from agentrl_environments._bfcl_score import MAX_STEPS, answered, right_turns, steps
from agentrl_environments._bfcl_world import FAILED, World

ADDED = "I have updated some more functions you can choose from. What about now?"
"""The leaderboard's words where functions are added."""
DONE = "Done."
MADE_TASKS = 20_000


class BfclTools(Toolbox):
    """Functions of the classes that an entry involves."""

    varies = True

    def __init__(self, played: Callable[[], Sequence[Turn]]) -> None:
        """Remember where to read how far the episode is."""
        self._played = played
        self._entry: Entry | None = None
        self._world: World | None = None

    def start(self, task: Task) -> None:
        """Make the instances of an episode."""
        self._entry = entry_of(task.answer["id"])
        self._world = World(self._entry)

    def release(self) -> None:
        """Let them go."""
        self._entry = self._world = None

    def tools(self) -> Mapping[str, ToolSpec]:
        """Those of the episode, and none before one."""
        if self._entry is None:
            return {}
        late = {name for names in self._entry.late.values() for name in names}
        return {
            name: self._spec(described, name not in late)
            for owner in self._entry.classes
            for name, described in functions(owner).items()
        }

    def _spec(self, described: Mapping[str, Any], listed: bool) -> ToolSpec:
        name, parameters = described["name"], described["parameters"]
        return ToolSpec(
            name=name,
            description=described["description"],
            parameters=parameters,
            timeout=TIMEOUT,
            fn=partial(self._run, name),
            check=partial(checked, name, parameters),
            parallel=False,
            # One that comes later is not told of, but there: the leaderboard runs it, too, and
            # one of its own solutions calls a function before it comes.
            listed=listed,
        )

    def _run(self, name: str, /, **arguments: Any) -> ToolResult:
        assert self._world is not None
        if steps(self._played()) > MAX_STEPS:
            told = f"not run: after {MAX_STEPS} turns with calls the user has left."
            return ToolResult(told, terminate=True, is_error=True)
        said = self._world.run(name, arguments)
        return ToolResult(said, is_error=said.startswith((FAILED, '{"error"')))


class Bfcl(ToolEnv):
    """A user asks for several things, one after the other, of simulated services."""

    max_turns = 200
    max_tool_calls = 2000
    max_result_chars = 60_000
    parallel_tools = False
    system_prompt = (
        "Do what the user asks, with calls of the functions. Go on until it is done; then say so "
        "without a call, and the user goes on. Where no function can do it, or the user left out "
        "what one needs, say so and call none."
    )

    def __init__(self, category: str = "base") -> None:
        """Choose tasks.

        Args:
            category: base, long_context, miss_func, miss_param, or all.
        """
        known = (*CATEGORIES, "all")
        if category not in known:
            hint = suggestion(category, known, f"There are {', '.join(known)}.")
            raise UsageError(f"bfcl: category {category!r} is unknown. {hint}")
        self.category = category
        self._box = BfclTools(lambda: self.turns)

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """The 200 tasks of the category base to test; made-up ones to train on."""
        return cls().task_source(split)

    def task_source(self, split: str) -> TaskSource:
        """Tasks of the chosen categories: the leaderboard's to test, made-up ones to train on."""
        package()  # said before a run, not in its first episode
        chosen = CATEGORIES if self.category == "all" else (self.category,)
        if split == "train":
            return ProceduralTasks(partial(_drawn, categories=chosen), MADE_TASKS, 0)
        return ListTasks([_task(found) for name in chosen for found in entries(name)])

    def toolboxes(self) -> Sequence[Toolbox]:
        """The functions of the task that is played."""
        return (self._box,)

    def reply(self, turn: Turn) -> str | None:
        """The user's next words."""
        assert self.task is not None
        playing, asked = entry_of(self.task.answer["id"]), sum(not t.calls for t in self.turns)
        if asked >= len(playing.questions):
            return None
        return playing.questions[asked] or added(playing, asked)

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """1 where state and responses are right after every turn of the user."""
        right = right_turns(entry_of(task.answer["id"]), answered(trajectory.turns))
        return {"correct": float(all(right))}


def added(playing: Entry, turn: int) -> str:
    """How the user tells of functions that come with a turn: their schemas are in the words."""
    there = {name: f for owner in playing.classes for name, f in functions(owner).items()}
    found = [there[name] for name in playing.late.get(turn, ())]
    return f"{json.dumps(found, ensure_ascii=False)}\n{ADDED}"


def checked(
    name: str, parameters: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments, where their names are right.

    Types are not looked at. A function that cannot work with one says so itself; where it can,
    the leaderboard takes the call, and one of its own solutions gives a text for a number.

    Raises:
        BadArguments: In words for the policy.
    """
    known = parameters["properties"]
    for key in arguments:
        if key not in known:
            hint = suggestion(key[:80], known, f"It takes {', '.join(known) or 'none'}.")
            raise BadArguments(f"{name}: there is no argument {key[:80]}. {hint}")
    for key in parameters.get("required", ()):
        if key not in arguments:
            raise BadArguments(f"{name}: {key} is missing.")
    return dict(arguments)


def _drawn(rng: np.random.Generator, categories: Sequence[str]) -> Task:
    return _task(made(str(rng.choice(categories)), int(rng.integers(2**31))))


def _task(playing: Entry) -> Task:
    gold = [[[c.name, list(c.positional), dict(c.named)] for c in turn] for turn in playing.gold]
    asked = len(playing.questions)
    return Task(
        playing.questions[0],
        {"id": playing.id, "gold": gold},
        id=playing.id,
        meta={
            "difficulty": "easy" if asked <= 3 else "medium" if asked <= 4 else "hard",
            "tags": [playing.category, *playing.classes],
        },
        reference=tuple(said for turn in _reference(playing) for said in turn),
    )


def _reference(playing: Entry) -> list[list[str]]:
    order = {
        name: list(described["parameters"]["properties"])
        for owner in playing.classes
        for name, described in functions(owner).items()
    }
    spoken = []
    for turn in playing.gold:
        calls = [(call.name, call.arguments(order[call.name])) for call in turn]
        spoken.append([words(calls), DONE] if calls else [DONE])
    return spoken
