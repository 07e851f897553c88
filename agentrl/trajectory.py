"""Trajectory: the record of one episode, exact to the token.

In    spans, appended as they happen: prompt, sampled, observation, scaffold
Out   input_ids, loss_mask and logprobs of equal length, by construction
Not   text that was encoded again: sampled ids are kept as the engine gave them
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal

from agentrl.errors import EngineError
from agentrl.message import Message, Turn
from agentrl.task import Task

SpanKind = Literal["prompt", "sampled", "observation", "scaffold"]


class Stop(StrEnum):
    """Why an episode ended."""

    ANSWER = "answer"
    """The policy answered and no more was asked."""
    TOOL_END = "tool_end"
    """A tool or the environment declared the end."""
    MAX_TURNS = "max_turns"
    MAX_TOKENS = "max_tokens"
    """The last turn was cut by its own length limit, or the episode's was used up."""
    CONTEXT = "context"
    """The next turn would not fit in the model's context."""
    MAX_TOOL_CALLS = "max_tool_calls"
    TIMEOUT = "timeout"
    PARSE = "parse"
    """Too many malformed turns in a row."""
    ENV_ERROR = "env_error"
    """Infrastructure: the episode is excluded from its group, never scored 0."""

    @property
    def terminated(self) -> bool:
        """The task itself came to an end."""
        return self in (Stop.ANSWER, Stop.TOOL_END)

    @property
    def status(self) -> Literal["ok", "truncated", "error"]:
        """The three-valued summary that runs record."""
        if self is Stop.ENV_ERROR:
            return "error"
        return "ok" if self.terminated else "truncated"


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring tokens with one author."""

    kind: SpanKind
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None
    """One per id where the policy sampled them; None elsewhere or where the engine gave none."""
    version: int = 0
    """Of the weights that sampled them."""

    def __post_init__(self) -> None:
        """Refuse lengths that differ and log-probs of tokens nobody sampled."""
        if self.logprobs is None:
            return
        if self.kind != "sampled":
            raise EngineError(f"log-probs on a {self.kind} span. Only sampled tokens have them.")
        if len(self.logprobs) != len(self.ids):
            raise EngineError(
                f"{len(self.ids)} sampled ids but {len(self.logprobs)} log-probs. "
                "The engine dropped or added tokens; the trajectory cannot be trained on."
            )


@dataclass(frozen=True, slots=True)
class Branch:
    """One token sequence of an episode; a second one begins where a template rewrites history."""

    spans: tuple[Span, ...] = ()

    def plus(self, *spans: Span) -> Branch:
        """This branch with more at its end."""
        return Branch(self.spans + tuple(s for s in spans if s.ids))

    @property
    def input_ids(self) -> list[int]:
        """All tokens, in order."""
        return [i for span in self.spans for i in span.ids]

    @property
    def loss_mask(self) -> list[int]:
        """1 exactly on sampled tokens."""
        return [int(span.kind == "sampled") for span in self.spans for _ in span.ids]

    @property
    def logprobs(self) -> list[float]:
        """Natural log-probs under the sampling distribution; NaN where there are none."""
        return [
            value for span in self.spans for value in (span.logprobs or (math.nan,) * len(span.ids))
        ]


@dataclass(frozen=True)
class Trajectory:
    """One played episode. Token fields are empty where no engine played it."""

    task: Task
    member: int
    """Position in its group, from 0."""
    seed: int
    """Seed of the episode's own generator."""
    opening: tuple[Message, ...]
    turns: tuple[Turn, ...]
    stop: Stop
    branches: tuple[Branch, ...] = ()
    reward: float | None = None
    """Tool rewards plus `reward()`; None where it cannot be scored."""
    reward_parts: Mapping[str, float] | None = None
    correct: bool | None = None
    version: int = 0
    """Weights version that began the episode."""
    problem: str = ""
    """What broke, where stop is env_error or the reward is unusable."""

    @property
    def messages(self) -> list[Message]:
        """The whole conversation."""
        return conversation(self.opening, self.turns)

    @property
    def answer(self) -> str:
        """Text of the last assistant turn."""
        return self.turns[-1].text if self.turns else ""

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each number that tools gave by name, over the calls that gave it."""
        found: dict[str, list[float]] = {}
        for turn in self.turns:
            for outcome in turn.outcomes:
                for name, number in outcome.metrics.items():
                    found.setdefault(name, []).append(number)
        return {name: sum(numbers) / len(numbers) for name, numbers in found.items()}

    @property
    def valid(self) -> bool:
        """Whether its reward may be compared with its group's."""
        return self.reward is not None and self.stop is not Stop.ENV_ERROR

    @cached_property
    def num_tokens(self) -> int:
        """Tokens forwarded to train on it: prompt, schemas, observations and sampled."""
        return sum(len(span.ids) for branch in self.branches for span in branch.spans)

    @cached_property
    def num_trained_tokens(self) -> int:
        """Sampled tokens."""
        return sum(sum(branch.loss_mask) for branch in self.branches)

    @property
    def oldest(self) -> int:
        """Version of the oldest weights that any of its tokens came from."""
        spans = (span for branch in self.branches for span in branch.spans)
        return min((s.version for s in spans if s.kind == "sampled"), default=self.version)

    @property
    def input_ids(self) -> list[int]:
        """Tokens of all branches, one after the other."""
        return [i for branch in self.branches for i in branch.input_ids]

    @property
    def loss_mask(self) -> list[int]:
        """1 exactly on sampled tokens."""
        return [i for branch in self.branches for i in branch.loss_mask]

    @property
    def logprobs(self) -> list[float]:
        """Log-probs of sampled tokens, NaN elsewhere."""
        return [i for branch in self.branches for i in branch.logprobs]


def conversation(opening: Sequence[Message], turns: Sequence[Turn]) -> list[Message]:
    """Everything that was said, in order."""
    return [*opening, *(message for turn in turns for message in turn.messages())]


def tool_calls(turns: Sequence[Turn]) -> int:
    """How many calls the policy wrote, sound or not."""
    return sum(len(turn.calls) for turn in turns)


def tool_failures(turns: Sequence[Turn]) -> int:
    """How many calls did not come back with status ok."""
    return sum(outcome.status != "ok" for turn in turns for outcome in turn.outcomes)
