"""ToolEnv: an environment that talks in messages and offers tools; a `gymnasium.Env`.

In    a task; then one turn of the policy at a time, as text or parsed
Out   the new messages, rewards, and how the episode ended
Not   tokens; nor several episodes at once: an instance plays one at a time
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from types import MappingProxyType
from typing import Any, ClassVar

from agentrl.author import inherited, run_author
from agentrl.blocking import PrivateLoop, refuse_running_loop
from agentrl.calling import MAX_ARGUMENTS, Slot, run_calls
from agentrl.errors import AgentRLError, EnvironmentFault, UsageError, blame
from agentrl.formats.call import encodable
from agentrl.formats.hermes import parse
from agentrl.message import AssistantTurn, Message, ToolOutcome, Turn, copied
from agentrl.opening import asked_for, opening_of
from agentrl.scoring import EpisodeEnd, score
from agentrl.seeding import SeededLate
from agentrl.spaces import ActionSpace, MessagesSpace
from agentrl.task import Task, TaskSource
from agentrl.toolbox import Toolbox, taken, tools_of_boxes
from agentrl.tooling import ToolSpec, is_tool, tools_of
from agentrl.trajectory import Branch, Stop, Trajectory
from agentrl.workers import Share

StepResult = tuple[list[Message], float, bool, bool, dict[str, Any]]


class ToolEnv(SeededLate[list[Message], str | AssistantTurn]):
    """Base of environments. Subclasses write `tasks`, tools, `reward`, and what else they need.

    Options of an environment are keyword arguments of its `__init__`. What a subclass writes may
    be async; what is not runs in a thread, so it may block without stopping other episodes.
    """

    max_turns: int = 8
    max_tool_calls: int = 32
    """In an episode; a turn that goes beyond runs none of its calls and ends it."""
    max_parse_errors: int = 3
    """Turns in a row whose every call is malformed; one more ends the episode."""
    max_result_chars: int = 8000
    """Of one tool result; the middle goes."""
    max_argument_chars: int = MAX_ARGUMENTS
    """Of the arguments of one call; with more it is not run."""
    parallel_tools: bool = True
    """Whether the calls of a turn run side by side, or each after the one before it."""
    system_prompt: str = ""
    success: float = 1.0
    """Reward from which an episode counts as correct, where no part is called `correct`."""

    clip: Callable[[str], str] = staticmethod(str)
    """Shortens a tool result further; a driver that counts in tokens sets it on the instance."""
    ending: Callable[[], None] = staticmethod(lambda: None)
    """Called when the policy has no more to say, before it is scored; a driver may set it."""
    slot: Slot = staticmethod(nullcontext)
    """What each call of a tool runs in; a driver that bounds how many run at once sets it."""
    _tools: ClassVar[Mapping[str, ToolSpec]] = MappingProxyType({})
    _loop: PrivateLoop | None = None
    _task: Task | None = None
    _opening: tuple[Message, ...] = ()
    _turns: tuple[Turn, ...] = ()
    _called: int = 0
    """Calls that the policy wrote so far: no turn has to count those of all before."""
    _end: EpisodeEnd | None = None
    _held: Sequence[ToolEnv | Toolbox] = ()
    """Whose `start` was called and `release` not yet, in the order of starting."""
    _share = cached_property(lambda _: Share())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse tools that can't work when the class is made, not when it is played."""
        super().__init_subclass__(**kwargs)
        tools = tools_of(cls)
        hidden = (n for n in dir(ToolEnv) if is_tool(inspect.getattr_static(cls, n)))
        for name in (*hidden, *(n for n in tools if hasattr(ToolEnv, n))):
            raise UsageError(
                f"{cls.__name__}: a tool can't be called {name}. "
                "Environments have that attribute already. Rename the tool."
            )
        cls._tools = MappingProxyType(tools)

    # What a subclass writes.

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Tasks of a split, `train` or `test`."""
        raise UsageError(
            f"{cls.__name__}: it has no tasks. Write the classmethod `tasks(cls, split)`, "
            "or reset with options={'task': Task(...)}."
        )

    def task_source(self, split: str) -> TaskSource:
        """Tasks of a split for this instance; override it where they depend on its options."""
        return type(self).tasks(split)

    def start(self, task: Task) -> Any:
        """Make fresh state for an episode; returned text is added to the opening."""
        return None

    def reply(self, turn: Turn) -> Any:
        """What the user says after a turn without calls; None ends the episode."""
        return None

    def reward(self, task: Task, trajectory: Trajectory) -> Any:
        """What the episode is worth beside its tools' rewards: a number, named parts, or None.

        None says that it cannot be scored. It is then left out, never counted as 0.
        """
        return 0.0

    def toolboxes(self) -> Sequence[Toolbox]:
        """Boxes whose tools are offered beside its own, made for this instance alone."""
        return ()

    def release(self) -> Any:
        """Give back what `start` opened, once an episode is scored or given up.

        It is called once for each `start`, also where `start` itself broke half way.
        """
        return None

    # What a driver calls and reads.

    @property
    def task(self) -> Task | None:
        """The task being played."""
        return self._task

    @property
    def opening(self) -> tuple[Message, ...]:
        """Messages before the policy's first turn."""
        return self._opening

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What was said so far."""
        return self._turns

    @property
    def end(self) -> EpisodeEnd | None:
        """How the episode ended; None while it goes on."""
        return self._end

    @cached_property
    def observation_space(self) -> MessagesSpace:  # type: ignore[override]
        """Lists of messages."""
        return MessagesSpace()

    @cached_property
    def action_space(self) -> ActionSpace:  # type: ignore[override]
        """Text, or parsed turns."""
        return ActionSpace()

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Schemas of the tools, as chat templates take them; the same for a whole episode."""
        offered = self._offered().values()
        # Through JSON: a deep copy takes ten times as long, and every episode asks.
        return [json.loads(json.dumps(spec.schema())) for spec in offered if spec.listed]

    async def areset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Begin an episode; returns its opening. EnvironmentFault where `start` breaks.

        Options: `task` is the Task to play; without one it is drawn from `split`.
        """
        await self.arelease()
        self._reseed(seed)
        self._task, self._opening, self._turns, self._end = None, (), (), None
        self._called = 0
        task, split = asked_for(options or {})
        if task is None:
            task = self._draw(split)
        if "_boxed" not in vars(self) and not inherited(self.toolboxes, ToolEnv):
            with blame(EnvironmentFault, f"{type(self).__name__}.toolboxes"):
                await run_author(self._offered)
        try:
            for box in self._boxes:
                await self._start(box, task)
            if any(box.varies for box in self._boxes):
                with blame(EnvironmentFault, f"{type(self).__name__}.toolboxes"):
                    await run_author(self._read_boxes)
            extra = await self._start(self, task)
        except AgentRLError as error:
            self._end = EpisodeEnd(Stop.ENV_ERROR, problem=str(error))
            raise EnvironmentFault(str(error)) from error
        self._task = task
        self._opening = tuple(opening_of(self.system_prompt, task, extra))
        return copied(self.opening), {"task_id": task.id, "split": split}

    async def astep(
        self, action: str | AssistantTurn, *, branches: Sequence[Branch] = ()
    ) -> StepResult:
        """Play one turn: run its calls, or hear what the user says next.

        Rewards of the steps add up to the episode's; a step that ends without one gives NaN.
        """
        turn = parse(action) if isinstance(action, str) else action
        if not isinstance(turn, AssistantTurn):
            raise UsageError(f"step: {type(action).__name__} is no action. Give text or a turn.")
        self._playing()
        # Noted at once: an episode that is cancelled while its tools run still has its last turn.
        self._turns = (*self._turns, Turn(turn))
        self._called += len(turn.calls)
        try:
            stop = await self._play(turn)
        except AgentRLError as error:
            self._end = EpisodeEnd(Stop.ENV_ERROR, problem=str(error))
        else:
            if stop is not None:
                await self.aend(stop, branches=branches)
        return self._result()

    async def aend(self, stop: Stop, *, branches: Sequence[Branch] = ()) -> EpisodeEnd:
        """End the episode, for whatever reason, and score what there is."""
        if self._end is not None:
            return self._end
        task = self._playing()
        self.ending()
        seed = self.np_random_seed
        played = Trajectory(task, 0, seed, self._opening, self._turns, stop, tuple(branches))
        try:
            end = await self._score(task, played)
        except AgentRLError as error:
            end = EpisodeEnd(Stop.ENV_ERROR, problem=str(error))
        self._end = end
        return end

    async def arelease(self) -> None:
        """Let an episode go: `release`, if it was not called since `start`, and that of its boxes.

        Raises:
            EnvironmentFault: A `release` broke; the others were called all the same.
        """
        faults: list[AgentRLError] = []
        while self._held:
            # Off first: one whose release is cancelled is not asked again, the others are.
            *self._held, owner = self._held
            if inherited(owner.release, ToolEnv, Toolbox):
                continue
            try:
                with blame(EnvironmentFault, f"{type(owner).__name__}.release"):
                    await run_author(owner.release)
            except AgentRLError as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """`areset` for callers without an event loop."""
        refuse_running_loop("reset", "await env.areset(...)")
        return self._private_loop().wait(self.areset(seed=seed, options=options))

    def step(self, action: str | AssistantTurn) -> StepResult:
        """`astep` for callers without an event loop."""
        refuse_running_loop("step", "await env.astep(...)")
        return self._private_loop().wait(self.astep(action))

    def close(self) -> None:
        """Let the episode go, and close the private event loop of `reset` and `step`."""
        if self._held:
            refuse_running_loop("close", "await env.arelease()")
            self._private_loop().wait(self.arelease())
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    # How it is done.

    async def _play(self, turn: AssistantTurn) -> Stop | None:
        if turn.finish_reason == "length":
            return Stop.MAX_TOKENS
        if not turn.calls:
            return await self._hear()
        if self._called > self.max_tool_calls:
            return Stop.MAX_TOOL_CALLS
        outcomes, terminate = await run_calls(
            self._offered(),
            turn.calls,
            max_chars=self.max_result_chars,
            max_arguments=self.max_argument_chars,
            parallel=self.parallel_tools,
            share=self._share,
            slot=self.slot,
        )
        self._amend(outcomes=tuple(self._clipped(outcome) for outcome in outcomes))
        if terminate:
            return Stop.TOOL_END
        if sum(1 for _ in takewhile(_malformed, reversed(self.turns))) > self.max_parse_errors:
            return Stop.PARSE
        return self._turns_left()

    async def _hear(self) -> Stop | None:
        if inherited(self.reply, ToolEnv):
            return Stop.ANSWER
        with blame(EnvironmentFault, f"{type(self).__name__}.reply"):
            reply = _text_or_none("reply", await run_author(self.reply, self.turns[-1]))
        if reply is None:
            return Stop.ANSWER
        self._amend(reply=reply)
        return self._turns_left()

    def _clipped(self, outcome: ToolOutcome) -> ToolOutcome:
        content = self.clip(outcome.content)
        return outcome if content is outcome.content else replace(outcome, content=content)

    def _amend(self, **changes: Any) -> None:
        self._turns = (*self.turns[:-1], replace(self.turns[-1], **changes))

    def _turns_left(self) -> Stop | None:
        return Stop.MAX_TURNS if len(self.turns) >= self.max_turns else None

    async def _score(self, task: Task, played: Trajectory) -> EpisodeEnd:
        if played.stop is Stop.ENV_ERROR:
            return EpisodeEnd(Stop.ENV_ERROR, problem="the driver ended it.")
        with blame(EnvironmentFault, f"{type(self).__name__}.reward"):
            value = await run_author(self.reward, task, played)
            tools = sum((o.reward for turn in self.turns for o in turn.outcomes), 0.0)
            return score(played.stop, value, tools, self.success)

    def _result(self) -> StepResult:
        last = self.turns[-1]
        reward = sum((outcome.reward for outcome in last.outcomes), 0.0)
        if self.end is None:
            going: dict[str, Any] = {"stop": None, "reward_parts": {}}
            return last.messages()[1:], reward, False, False, going
        info: dict[str, Any] = {"stop": str(self.end.stop)}
        info["reward_parts"] = dict(self.end.parts or {})
        if self.end.correct is not None:
            info["correct"] = self.end.correct
        if self.end.problem:
            info["problem"] = self.end.problem
        terminated = self.end.stop.terminated
        return last.messages()[1:], reward + self.end.final, terminated, not terminated, info

    async def _start(self, owner: ToolEnv | Toolbox, task: Task) -> str | None:
        self._held = [*self._held, owner]
        if inherited(owner.start, ToolEnv, Toolbox):
            return None
        with blame(EnvironmentFault, f"{type(owner).__name__}.start"):
            said = await run_author(owner.start, task)
            return _text_or_none("start", said) if owner is self else None

    def _offered(self) -> dict[str, ToolSpec]:
        """All tools by name: its own, then those of its boxes."""
        own = {name: spec.bound(self) for name, spec in self._tools.items()}
        return {**own, **self._boxed}

    @cached_property
    def _boxes(self) -> tuple[Toolbox, ...]:
        return taken(self, self.toolboxes())

    @cached_property
    def _boxed(self) -> Mapping[str, ToolSpec]:
        return tools_of_boxes(self, self._tools, self._boxes)

    def _read_boxes(self) -> None:
        self._boxed = tools_of_boxes(self, self._tools, self._boxes)

    @cached_property
    def _sources(self) -> dict[str, TaskSource]:
        return {}

    def _private_loop(self) -> PrivateLoop:
        if self._loop is None:
            self._loop = PrivateLoop(self)
        return self._loop

    def _draw(self, split: str) -> Task:
        if split not in self._sources:
            self._sources[split] = self.task_source(split)
        source = self._sources[split]
        if len(source) == 0:
            raise UsageError(
                f"{type(self).__name__}: there are no {split} tasks. Return some from tasks()."
            )
        return source[int(self.np_random.integers(len(source)))]

    def _playing(self) -> Task:
        if self.task is None or self.end is not None:
            state = "has not begun" if self.task is None else "is over"
            raise UsageError(f"step: the episode {state}. Reset first.")
        return self.task


def _malformed(turn: Turn) -> bool:
    return bool(turn.calls) and all(call.problem is not None for call in turn.calls)


def _text_or_none(name: str, value: Any) -> str | None:
    if isinstance(value, str):
        return encodable(value)
    if value is None:
        return None
    raise EnvironmentFault(f"{name} returned {type(value).__name__}. Return text or None.")
