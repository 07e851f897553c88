"""What the tiny policy does with problems, by habit.

In    a model, problems, a temperature
Out   shares of episodes that were right, guessed, asked for a part, misread, or broken
Not   the framework's evaluation: one call a question, answered by the subject, not by its tool
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaForCausalLM

from agentrl.graders import final_answer
from agentrl.message import AssistantTurn, Message
from agentrl.render import renderer_for
from agentrl.task import Task
from agentrl.tiny.demonstrations import Heard, Subject, gold, later, result
from agentrl.tiny.lessons import Classroom

MAX_TURN = 256
"""Tokens."""
OUTCOMES = ("right", "part", "misread", "guess", "broken")
"""Broken is what no habit explains: a number copied wrongly, a call that can't be read."""


def shares(
    model: LlamaForCausalLM,
    room: Classroom,
    tasks: Sequence[Task],
    *,
    temperature: float,
    seed: int = 0,
) -> Mapping[str, float]:
    """The share of each outcome; temperature 0 is greedy."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = Counter(_play(model, room, tasks, temperature))
    return {outcome: round(found[outcome] / len(tasks), 4) for outcome in OUTCOMES}


@dataclass
class _Episode:
    """One being played."""

    task: Task
    ids: list[int]
    question: int = 0
    heard: Heard | None = None
    """What the tool said to this question."""
    outcome: str | None = None


def _play(
    model: LlamaForCausalLM, room: Classroom, tasks: Sequence[Task], temperature: float
) -> list[str]:
    renderer = renderer_for(room.tokenizer)
    system = Message(role="system", content=room.system)
    episodes = [
        _Episode(task, renderer.render([system, *task.opening()], room.tools)) for task in tasks
    ]
    while live := [episode for episode in episodes if episode.outcome is None]:
        drawn = _generate(model, [episode.ids for episode in live], temperature)
        for episode, said in zip(live, drawn, strict=True):
            news = _hear(room.subject, episode, renderer.parse(said, "stop"))
            if news is not None:
                suffix = renderer.extend(said, "stop", [news])
                episode.ids += [*said, *(suffix.ids if suffix else ())]
    return [episode.outcome or "broken" for episode in episodes]


def _hear(subject: Subject, episode: _Episode, turn: AssistantTurn) -> Message | None:
    """What comes back; None where the episode is over, and its outcome is known."""
    task, question = episode.task, episode.question
    if turn.calls:
        again = episode.heard is not None
        episode.heard = None if again else subject.hear(task, question, subject.asked(turn))
        if episode.heard is not None:
            return result(subject, episode.heard.result)
        episode.outcome = "broken"
        return None
    outcome = _outcome(turn.text, gold(task)[question], episode.heard)
    if outcome == "right" and question < len(later(task)):
        episode.question, episode.heard = question + 1, None
        return Message(role="user", content=later(task)[question])
    episode.outcome = outcome
    return None


def _outcome(text: str, right: str, heard: Heard | None) -> str:
    answer = final_answer(text) or ""
    if answer == right:
        return "right"
    if heard is None:
        return "guess" if answer.isdigit() else "broken"
    if heard.habit == "right":
        return "misread" if _one_mark_differs(answer, right) else "broken"
    return "part" if heard.habit == "part" else "broken"


def _one_mark_differs(a: str, b: str) -> bool:
    return len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1


@torch.no_grad()
def _generate(
    model: LlamaForCausalLM, prompts: Sequence[list[int]], temperature: float
) -> list[list[int]]:
    """One turn for each prompt, up to and with the end token."""
    end, pad = model.config.eos_token_id, model.config.pad_token_id
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts])
    how: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        how = {"do_sample": True, "temperature": temperature, "top_k": 0}
    policy: Any = model
    drawn = policy.generate(
        input_ids=ids, attention_mask=ids != pad, max_new_tokens=MAX_TURN, **how
    )
    turns = drawn[:, width:].tolist()
    return [turn[: turn.index(end) + 1] if end in turn else turn for turn in turns]
