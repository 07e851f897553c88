"""What the tiny policy does with problems, by habit.

In    a model, problems, a temperature
Out   shares of episodes that were right, guessed, asked for a part, misread, or broken
Not   the framework's evaluation: at most two turns, each one batch
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import LlamaForCausalLM

from agentrl.exact import ExactError, evaluate
from agentrl.graders import final_answer
from agentrl.message import AssistantTurn, Message
from agentrl.render import renderer_for
from agentrl.task import Task
from agentrl.tiny.demonstrations import expression_of, parts_of
from agentrl.tiny.lessons import Classroom

MAX_TURN = 64
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


def _play(
    model: LlamaForCausalLM, room: Classroom, tasks: Sequence[Task], temperature: float
) -> list[str]:
    renderer = renderer_for(room.tokenizer)
    system = Message(role="system", content=room.system)
    prompts = [renderer.render([system, *task.opening()], room.tools) for task in tasks]
    said = _generate(model, prompts, temperature)
    outcomes = ["broken"] * len(tasks)
    asked: list[int] = []
    again: list[list[int]] = []
    for i, task in enumerate(tasks):
        turn = renderer.parse(said[i], "stop")
        result = _result(turn)
        if not turn.calls:
            outcomes[i] = "right" if turn.text == f"Answer: {task.answer}" else _guess(turn)
        elif result is not None:
            news = [Message(role="tool", content=result, name="calculator")]
            suffix = renderer.extend(said[i], "stop", news)
            asked.append(i)
            again.append([*prompts[i], *said[i], *(suffix.ids if suffix else ())])
    for i, answer in zip(asked, _generate(model, again, temperature), strict=True):
        call, turn = renderer.parse(said[i], "stop"), renderer.parse(answer, "stop")
        outcomes[i] = _outcome(tasks[i], call, final_answer(turn.text) or "")
    return outcomes


def _guess(turn: AssistantTurn) -> str:
    return "guess" if turn.text.removeprefix("Answer: ").isdigit() else "broken"


def _outcome(task: Task, turn: AssistantTurn, answer: str) -> str:
    expression = _expression(turn)
    if answer == task.answer:
        return "right"
    if expression == expression_of(task):
        return "misread" if _one_mark_differs(answer, task.answer) else "broken"
    return "part" if expression in parts_of(expression_of(task)) else "broken"


def _one_mark_differs(a: str, b: str) -> bool:
    return len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1


def _expression(turn: AssistantTurn) -> str:
    return str(turn.calls[0].arguments.get("expression", "")) if turn.calls else ""


def _result(turn: AssistantTurn) -> str | None:
    try:
        return evaluate(_expression(turn))
    except ExactError:
        return None


@torch.no_grad()
def _generate(
    model: LlamaForCausalLM, prompts: Sequence[list[int]], temperature: float
) -> list[list[int]]:
    """One turn for each prompt, up to and with the end token."""
    if not prompts:
        return []
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
