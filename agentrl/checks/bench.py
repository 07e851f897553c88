"""Where checks play: fresh instances, tasks of both splits, the real driver with scripted words.

In    a Subject
Out   tasks, played episodes, the words that a script says
Not   a model: the words are a reference solution's, or made up
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from transformers import PreTrainedTokenizerFast

from agentrl.checks.calls import hermes, sample
from agentrl.checks.subject import Subject
from agentrl.engines.scripted import ScriptedEngine, Session, Words
from agentrl.env import ToolEnv
from agentrl.episode import Limits, Play, Seat, play
from agentrl.errors import AgentRLError, EnvironmentFault, blame
from agentrl.policy import Sampling
from agentrl.render import Renderer, renderer_for
from agentrl.task import SPLITS, Task
from agentrl.tiny import FOLDER
from agentrl.tooling import ToolSpec
from agentrl.trajectory import Stop, Trajectory

PICKED = 5
"""Tasks of a split that are played."""
ROOM = 1 << 30
"""Tokens: nothing is cut here."""
DUNNO = "I do not know."
SEED = 7


class Skip(AgentRLError):
    """A check does not apply; the message says why."""


@dataclass
class Bench:
    """What checks share. Whatever an author's code raises here ends the check that asked."""

    subject: Subject
    seconds: float
    """Of a whole check; an episode has longer, so that the check ends first and says where."""
    notes: list[str] = field(default_factory=list)
    """What a check that passed wants to say."""
    _env: ToolEnv | None = None
    _specs: dict[str, dict[str, ToolSpec]] = field(default_factory=dict)
    _picked: dict[str, list[Task]] | None = None

    @property
    def renderer(self) -> Renderer:
        """The embedded policy's."""
        return _renderer()

    @property
    def env(self) -> ToolEnv:
        """An instance to read; nothing is played in it."""
        # No cached_property: it may hold a lock for the whole class, and an author's code hang.
        if self._env is None:
            self._env = self.subject.make()
        return self._env

    @property
    def picked(self) -> dict[str, list[Task]]:
        """A few tasks of each split, spread over it."""
        if self._picked is None:
            self._picked = self._pick()
        return self._picked

    def _pick(self) -> dict[str, list[Task]]:
        out: dict[str, list[Task]] = {}
        for split in SPLITS:
            with blame(EnvironmentFault, f"{self.subject.kind.__name__}.tasks"):
                source = self.env.task_source(split)
                size = len(source)
                count = min(PICKED, size)
                out[split] = [source[i * size // count] for i in range(count)]
        return out

    @property
    def tasks(self) -> list[Task]:
        """Those of both splits."""
        return [task for split in SPLITS for task in self.picked[split]]

    @property
    def referred(self) -> list[Task]:
        """Those with a reference solution.

        Raises:
            Skip: None has one.
        """
        found = [task for task in self.tasks if task.reference]
        if not found:
            raise Skip("no task has a reference")
        return found

    def specs(self, task: Task) -> dict[str, ToolSpec]:
        """The tools that an episode of a task offers, by name; no longer bound to one."""
        if task.id not in self._specs:
            self._specs[task.id] = asyncio.run(self._offered(task))
        return self._specs[task.id]

    async def _offered(self, task: Task) -> dict[str, ToolSpec]:
        env = self.subject.make()
        try:
            await env.areset(seed=SEED, options={"task": task})
            return env._offered()
        finally:
            await env.arelease()

    def words(self, task: Task, specs: Mapping[str, ToolSpec] | None = None) -> tuple[str, ...]:
        """What to say: the reference solution, or each tool once and that nothing is known."""
        if task.reference:
            return task.reference
        known = self.specs(task) if specs is None else specs
        calls = [hermes(name, sample(spec.parameters)) for name, spec in known.items()]
        return (*calls, DUNNO)

    def scripts(
        self, task: Task, specs: Mapping[str, ToolSpec] | None = None
    ) -> list[tuple[str, ...]]:
        """What to say in several episodes: `words`, their last turn alone, and each tool once."""
        known = self.specs(task) if specs is None else specs
        words = self.words(task, known)
        calls = tuple(hermes(name, sample(spec.parameters)) for name, spec in known.items())
        found = (words, words[-1:], (*calls, DUNNO))
        return list(dict.fromkeys(found))

    def play(
        self, task: Task, words: Sequence[str], env: ToolEnv | None = None
    ) -> tuple[Trajectory, int]:
        """One episode through the real driver; also how many turns it had when words ran out.

        Where the words are used up the last ones are said again.
        """
        env = env or self.subject.make()
        end = [self.renderer.stop_token_ids[0]]

        def script(session: Session, turn: int) -> Words:
            return words[min(turn, len(words) - 1)] or end

        engine = ScriptedEngine(self.renderer.tokenizer, script, max_context=ROOM)
        limits = Limits(ROOM // 4, ROOM, ROOM, timeout=2 * self.seconds)
        world = Play(engine, self.renderer, Sampling(1.0), limits, task.split)
        played = asyncio.run(play(env, Seat(task, 0, 0, SEED), world))
        return played, max(0, len(played.turns) - len(words))

    def sound(self, task: Task, words: Sequence[str], env: ToolEnv | None = None) -> Trajectory:
        """An episode that infrastructure did not break.

        Raises:
            EnvironmentFault: It did; with what it said.
        """
        played, _ = self.play(task, words, env)
        if played.stop is Stop.ENV_ERROR:
            raise EnvironmentFault(played.problem)
        return played


@cache
def _renderer() -> Renderer:
    return renderer_for(PreTrainedTokenizerFast.from_pretrained(FOLDER))


def with_answer(task: Task, answer: Any) -> Task:
    """The task with another gold answer."""
    return replace(task, answer=answer, id=task.id)
