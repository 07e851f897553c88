"""Wild episodes: any model's tokens, read as calls that work, fail, make no sense, come in threes.

In    an engine, a renderer, a number of episodes, a seed
Out   their trajectories, and every request with its completion, as the engine saw them
Not   sense: what the policy says is noise, and its calls are drawn from a sum over that noise
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from agentrl import ListTasks, Task, ToolEnv, ToolError, tool
from agentrl.chosen import choose, samples
from agentrl.episode import Limits, Play
from agentrl.group import Group, play_groups, seed_for
from agentrl.head import score
from agentrl.message import AssistantTurn, ToolCall
from agentrl.policy import Completion, Request, Sampling
from agentrl.render import Renderer
from agentrl.sample import Sample
from agentrl.selection.question import Question
from agentrl.trajectory import Span, Trajectory

WORDS = (
    "Grüße",
    "naïve café",
    "数学",
    "до свидания",
    "🦊🦊",
    "a\u0301",
    "plain",
    "\u200b",
    "٣ + ٤",
)
MEMBERS = 4
"""Episodes of each task."""


class Wild(ToolEnv):
    """Tools that answer, refuse, break off, and answer at length; a user who talks back."""

    max_turns = 7
    system_prompt = "Sag etwas — irgendetwas. 何でも。"

    @classmethod
    def tasks(cls, split: str) -> ListTasks:
        return ListTasks([Task(f"{split} {i}: {WORDS[i % len(WORDS)]}", i) for i in range(200)])

    @tool
    def shout(self, text: str) -> str:
        """Give text back, louder, with company."""
        return f"{text.upper()} {random.Random(text).choice(WORDS)}"

    @tool
    def refuse(self, reason: str) -> str:
        """Never do what is asked."""
        raise ToolError(f"no: {reason} — nein")

    @tool
    def recite(self, times: int) -> str:
        """Say all words so many times."""
        return " ".join(WORDS * times)

    def reply(self, turn: Any) -> str | None:
        return f"Und weiter? {WORDS[len(turn.text) % len(WORDS)]}" if len(turn.text) % 3 else None

    def reward(self, task: Task, trajectory: Trajectory) -> float:
        return random.Random(repr(trajectory.messages)).random()


def wild_turn(text: str, finish_reason: Any, tools: Sequence[Mapping[str, Any]]) -> AssistantTurn:
    """No call, or up to three, of which some have no such tool or wrong arguments."""
    draw = random.Random(zlib.crc32(text.encode("utf-8", "surrogatepass")))
    calls = (
        ToolCall("shout", {"text": text[:12]}),
        ToolCall("refuse", {"reason": draw.choice(WORDS)}),
        ToolCall("recite", {"times": draw.randint(1, 2)}),
        ToolCall("recite", {"times": "often"}),
        ToolCall("nobody", {}),
        ToolCall("shout", {}, problem="the arguments end in mid-air"),
    )
    return AssistantTurn(text, tuple(draw.choices(calls, k=draw.choice((0, 1, 1, 2, 3)))))


def wild_renderer(renderer: Renderer) -> Renderer:
    """A model's own template, with calls read from noise."""
    read = replace(
        renderer.format,
        parse=lambda text, reason, tools: replace(
            wild_turn(text, reason, tools), finish_reason=reason
        ),
    )
    return replace(renderer, calls=replace(renderer.calls, format=read))


class Listening:
    """An engine that is passed through, and every question with its answer is kept."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.heard: dict[tuple[int, int], list[tuple[Request, Completion]]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, request: Request) -> Completion:
        completion: Completion = await self._engine.generate(request)
        self.heard.setdefault(request.session, []).append((request, completion))
        return completion


@dataclass(frozen=True)
class Played:
    """Episodes, and what the engine was asked and said in each."""

    groups: Sequence[Group]
    heard: Mapping[tuple[int, int], Sequence[tuple[Request, Completion]]]

    def each(self) -> Iterator[tuple[Trajectory, Sequence[tuple[Request, Completion]]]]:
        for position, group in enumerate(self.groups):
            for trajectory in group.trajectories:
                yield trajectory, self.heard.get((position, trajectory.member), ())

    def samples(self) -> list[Sample]:
        """What an update would train on if everything was kept."""
        asked = Question(rule="all", within="random", m=MEMBERS)
        return samples(choose(self.groups, asked, stats="subset", loss="grpo", seed=0))

    def kinds(self) -> Counter[str]:
        """How often there was what an exact path has to survive."""
        found: Counter[str] = Counter()
        for trajectory, _ in self.each():
            found[f"stop {trajectory.stop.value}"] += 1
            for turn in trajectory.turns:
                found[f"calls {len(turn.calls)}"] += 1
                found[f"end {turn.assistant.finish_reason}"] += 1
                found.update(f"outcome {outcome.status}" for outcome in turn.outcomes)
                found["not ascii"] += not all(o.content.isascii() for o in turn.outcomes)
        return found


LIMITS = Limits(
    max_turn_tokens=24, max_tokens=120, max_context=1024, max_observation_tokens=160, timeout=120.0
)
"""Of these turns many are cut, and some episodes run out of every budget."""


async def play_wild(
    engine: Any,
    renderer: Renderer,
    episodes: int,
    *,
    seed: int = 0,
    temperature: float = 1.0,
    limits: Limits = LIMITS,
) -> Played:
    """Play so many episodes (a multiple of MEMBERS), side by side."""
    listening = Listening(engine)
    play = Play(listening, wild_renderer(renderer), Sampling(temperature), limits)
    source = Wild.tasks("train")
    groups = await play_groups(
        lambda task: Wild(),
        [source[i] for i in range(episodes // MEMBERS)],
        n=MEMBERS,
        seed_of=lambda task, member: seed_for(seed, 1, task.hash, member),
        world=play,
    )
    return Played(groups, listening.heard)


def assert_exact(played: Played) -> None:
    """Tokens and log-probs that the engine gave are, in place and order, those that are trained."""
    for trajectory, heard in played.each():
        rest = iter([(asked, said, piece) for asked, said in heard for piece in said.pieces()])
        for branch in trajectory.branches:
            at = 0
            for span in branch.spans:
                if span.kind == "sampled":
                    _assert_said(branch.input_ids[:at], span, *next(rest))
                at += len(span.ids)
        assert next(rest, None) is None, f"{trajectory.task.id}: something said is not recorded"
    branches = [b for t, _ in played.each() for b in t.branches if any(b.loss_mask)]
    rows = played.samples()
    assert [list(row.input_ids) for row in rows] == [b.input_ids for b in branches]
    assert [list(row.loss_mask) for row in rows] == [b.loss_mask for b in branches]
    assert repr([list(row.logprobs) for row in rows]) == repr([b.logprobs for b in branches])


def _assert_said(
    before: list[int], span: Span, asked: Request, said: Completion, piece: tuple[int, int, int]
) -> None:
    version, start, end = piece
    assert before == [*asked.prompt_ids, *said.ids[:start]]
    assert said.logprobs is not None
    assert (span.ids, span.logprobs) == (said.ids[start:end], said.logprobs[start:end])
    assert span.version == version


def mismatch(model: Any, rows: Sequence[Sample], temperature: float = 1.0) -> torch.Tensor:
    """Learner's log-prob less the engine's, of every sampled token."""
    apart = []
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([row.input_ids])
            at = torch.tensor([i for i, mine in enumerate(row.loss_mask) if mine])
            own = score(model, ids, at - 1, ids[0, at], temperature=temperature).logprobs
            apart.append(own.float() - torch.tensor(row.logprobs)[at])
    return torch.cat(apart)


def play_wild_now(engine: Any, renderer: Renderer, episodes: int, **options: Any) -> Played:
    """The same where no loop is running."""
    return asyncio.run(play_wild(engine, renderer, episodes, **options))
