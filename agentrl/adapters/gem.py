"""gem/ID: a text environment of GEM, as a conversation.

In    an id as `gem.make` takes it, and its keyword arguments
Out   a ToolEnv: a task is a seed, a whole turn of the policy is an action, what comes back is
      the user's next message
Not   GEM's wrappers and tools; and only seeds are divided: where an environment draws from a
      small set, one problem may come in both splits

Its steps' rewards are added up. An end that is marked as terminated and truncated at once, as
GEM marks most, is an end; only what is truncated alone counts as cut short.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from agentrl.adapters.making import named, seeds
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, UsageError, blame, suggestion
from agentrl.message import Turn
from agentrl.optional import need
from agentrl.task import Task, TaskSource
from agentrl.trajectory import Trajectory


class Gem(ToolEnv):
    """A text environment of GEM: a task is a seed, a turn a step."""

    gem_id: ClassVar[str] = ""

    def __init__(self, max_turns: int = 64, prompt: str = "", **kwargs: Any) -> None:
        """Make one.

        Args:
            max_turns: Of the policy; the environment has its own limit beside it.
            prompt: The system prompt.
            kwargs: For `gem.make`.
        """
        self.max_turns = self._most = max_turns
        self.system_prompt = prompt
        self._kwargs = kwargs
        self._own: Any = None
        self._rewards = 0.0
        self._world  # noqa: B018 (an id or argument that can't be is refused now)

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Seeds."""
        return seeds("Begin.", split, [f"gem/{cls.gem_id}"])

    def start(self, task: Task) -> str:
        """Reset with the task's seed; the first observation opens the conversation."""
        self.max_turns, self._rewards = self._most, 0.0
        with self._alone(int(task.answer["seed"])):
            observation, _ = self._world.reset(seed=int(task.answer["seed"]))
        return str(observation)

    def reply(self, turn: Turn) -> str | None:
        """One step with what the policy said."""
        with self._alone():
            observation, reward, terminated, truncated, info = self._world.step(turn.text)
        self._rewards += float(reward)
        if terminated:
            return None
        if truncated:
            # No end of the task: this turn is the last one, as by a limit of ours.
            self.max_turns = 0
        suffix = info.get("suffix")
        return f"{observation}\n{suffix}" if suffix else str(observation)

    def reward(self, task: Task, trajectory: Trajectory) -> float:
        """What the steps gave, together."""
        return self._rewards

    def close(self) -> None:
        """Close the other side too, if it can be."""
        super().close()
        world = self.__dict__.pop("_world", None)
        if hasattr(world, "close"):
            world.close()

    @cached_property
    def _world(self) -> Any:
        with self._alone(0), blame(UsageError, f"--env gem/{self.gem_id}"):
            return need("gem", "gem", f"--env gem/{self.gem_id}").make(self.gem_id, **self._kwargs)

    @contextmanager
    def _alone(self, seed: int | None = None) -> Iterator[None]:
        """Its environments draw from the process's generators: each episode finds its own there."""
        with _GENERATORS, blame(EnvironmentFault, f"gem/{self.gem_id}"):
            theirs = _states()
            if seed is not None:
                random.seed(seed)
                np.random.seed(seed % 2**32)
            else:
                _put(self._own)
            try:
                yield
            finally:
                self._own = _states()
                _put(theirs)


_GENERATORS = threading.RLock()
"""Held while the process's generators are an episode's."""


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _put(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])


def environment(name: str) -> type[ToolEnv]:
    """The class for one id.

    Raises:
        UsageError: gem-llm is not installed, or has no such id.
    """
    # Importing the package itself is what registers them.
    need("gem", "gem", f"--env gem/{name}")
    known = need("gem.envs.registration", "gem", f"--env gem/{name}").ENV_REGISTRY
    if name not in known:
        hint = suggestion(name, known, f"There are {len(known)}, such as game:Wordle-v0-easy.")
        raise UsageError(f"--env gem/{name}: GEM has no such id. {hint}")
    return named(Gem, f"gem/{name}", gem_id=name)
