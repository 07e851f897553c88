"""gymnasium/ID: a single-agent environment of gymnasium, played with one tool.

In    an id as `gymnasium.make` takes it, and its keyword arguments
Out   a ToolEnv: a task is a seed, `act` is a step, observations are text
Not   pictures, nor spaces without words: such an environment is refused

A step's reward is the tool's reward. The environment's end is the episode's, with stop
`tool_end`; where it cuts an episode short, by a limit on its steps, the stop is `max_turns`.
Environments of agentrl itself are not adapted: they have names of their own.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import gymnasium
from gymnasium.envs.registration import load_env_creator

from agentrl.adapters.making import named, seeds
from agentrl.adapters.toys import TOYS, Toy
from agentrl.adapters.words import (
    action_named,
    check_action,
    parameters_of,
    plain,
    refuse_unseen,
    shown,
)
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, ToolError, UsageError, blame, suggestion
from agentrl.message import Turn
from agentrl.task import Task, TaskSource
from agentrl.toolbox import Toolbox
from agentrl.tooling import ToolResult, ToolSpec
from agentrl.trajectory import Trajectory

TIMEOUT = 60.0
"""Seconds of a step."""


class Gymnasium(ToolEnv):
    """An environment of gymnasium: a task is a seed, a call of `act` a step."""

    gym_id: ClassVar[str] = ""
    max_tool_calls = 1000

    def __init__(
        self,
        max_turns: int = 100,
        success: float | None = None,
        prompt: str = "",
        actions: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        """Make one, to see whether it can be played.

        Args:
            max_turns: Turns of the policy.
            success: Reward from which an episode counts as correct. Where it is not given, that
                of toys.py, the id's `reward_threshold`, or 1.
            prompt: What the policy is told beside the observation: the rules, above all.
            actions: Names of a Discrete space's actions, in its order.
            kwargs: For `gymnasium.make`.
        """
        self.max_turns = self._most = max_turns
        self._kwargs, self._over = kwargs, True
        world, toy = self._world, TOYS.get(self._base, Toy((), "Act with the tool."))
        threshold = world.spec.reward_threshold if world.spec else None
        known = (success, toy.success, threshold)
        self.success = next((float(number) for number in known if number is not None), 1.0)
        where = f"--env gymnasium/{self.gym_id}"
        refuse_unseen(where, world.observation_space)
        self.names = action_named(where, world.action_space, actions or toy.actions)
        self.parameters = parameters_of(where, world.action_space, self.names)
        self.system_prompt = prompt or toy.rules

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Seeds."""
        return seeds("Begin.", split, [f"gymnasium/{cls.gym_id}"])

    def toolboxes(self) -> Sequence[Toolbox]:
        """The box with `act`."""
        return (_Act(self),)

    def start(self, task: Task) -> str:
        """Reset with the task's seed; the first observation opens the episode."""
        with blame(EnvironmentFault, f"{self.gym_id}.reset"):
            observation, _ = self._world.reset(seed=int(task.answer["seed"]))
            self._over, self.max_turns = False, self._most
            return self._seen(observation)

    def act(self, action: Any) -> ToolResult:
        """One step."""
        if self._over:
            raise ToolError("act: the episode is over.")
        with blame(EnvironmentFault, f"{self.gym_id}.step"):
            observation, reward, terminated, truncated, _ = self._world.step(action)
            text = self._seen(observation)
        self._over = bool(terminated or truncated)
        if terminated:
            return ToolResult(f"{text}\nThe episode is over.", float(reward), terminate=True)
        if truncated:
            # No end of the task: this turn is the last one, as by a limit of ours.
            self.max_turns = 0
            text = f"{text}\nThe limit on steps is reached."
        return ToolResult(text, float(reward))

    def reply(self, turn: Turn) -> str:
        """A turn without a call is no step; it is only counted."""
        return "Act by calling the tool."

    def reward(self, task: Task, trajectory: Trajectory) -> float:
        """Nothing beside the rewards of steps."""
        return 0.0

    def close(self) -> None:
        """Close the other side too."""
        super().close()
        world = self.__dict__.pop("_world", None)
        if world is not None:
            world.close()

    def _seen(self, observation: Any) -> str:
        """The rendering as text where there is one, and the observation where that says more."""
        text = shown(self._world.observation_space, observation)
        if self._world.render_mode != "ansi":
            return text
        return f"{_drawn(self._world.render())}\nObservation: {text}"

    @cached_property
    def _world(self) -> gymnasium.Env[Any, Any]:
        with blame(UsageError, f"--env gymnasium/{self.gym_id}"):
            return _make(self.gym_id, self._kwargs)

    @property
    def _base(self) -> str:
        return self.gym_id.rpartition("-v")[0]


class _Act(Toolbox):
    """The one tool, whose schema is the action space."""

    def __init__(self, env: Gymnasium) -> None:
        self._env = env

    def tools(self) -> Mapping[str, ToolSpec]:
        """It alone: a step waits for the one before it."""
        env = self._env
        check = partial(check_action, env._world.action_space, env.names)
        said = f"Take one step in {env._base}."
        spec = ToolSpec("act", said, env.parameters, TIMEOUT, env.act, check, parallel=False)
        return {"act": spec}


def environment(name: str) -> type[ToolEnv]:
    """The class for one id.

    Raises:
        UsageError: gymnasium has no such id.
    """
    module, _, gym_id = name.rpartition(":")
    if module:
        importlib.import_module(module)
    if gym_id not in gymnasium.registry:
        hint = suggestion(gym_id, gymnasium.registry, "Give module:ID where a module registers it.")
        raise UsageError(f"--env gymnasium/{name}: gymnasium has no such id. {hint}")
    return named(Gymnasium, f"gymnasium/{name}", gym_id=gym_id)


def _make(name: str, kwargs: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """Rendered as text where that can be."""
    spec = gymnasium.spec(name)
    entry = spec.entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    modes = getattr(creator, "metadata", {}).get("render_modes", [])
    if "ansi" in modes and "render_mode" not in kwargs:
        kwargs = {**kwargs, "render_mode": "ansi"}
    # Its own checker warns about spaces of others, which is not for a policy's run to tell.
    world: gymnasium.Env[Any, Any] = gymnasium.make(name, disable_env_checker=True, **kwargs)
    if isinstance(world.unwrapped, ToolEnv):
        raise UsageError(
            f"gymnasium/{name}: it is an environment of agentrl. Give its own name to --env."
        )
    return world


def _drawn(frame: Any) -> str:
    """A frame as text, where colours mark something that brackets can mark too."""
    text = frame.getvalue() if isinstance(frame, io.StringIO) else str(frame)
    return plain(text)
