"""Checks of single episodes: they end, whatever is said; their tokens; what gymnasium says.

In    a Bench
Out   Problems
Not   a judgement of rewards (rewards.py)
"""

from __future__ import annotations

import asyncio
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from itertools import chain

from gymnasium.utils import env_checker

from agentrl.checks.bench import DUNNO, SEED, Bench
from agentrl.checks.calls import ODD
from agentrl.checks.report import Problem
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, blame
from agentrl.message import Message
from agentrl.scoring import EpisodeEnd
from agentrl.task import Task
from agentrl.template import difference
from agentrl.trajectory import Branch, Stop, Trajectory

GARBAGE = ("", DUNNO, ODD.replace("\ud800", ""), "<tool_call>\n{", "Answer: nan", "9" * 5000)
"""What an untrained policy might say; each must be scored."""
_ANSWER = (
    "Answer or score whatever is said; raise EnvironmentFault only for what no policy can cause."
)
_CONTROL = re.compile(r"<\|\w+\|>")


def made(bench: Bench) -> Iterator[Problem]:
    """It can be made, more than once."""
    with blame(EnvironmentFault, f"{bench.subject.kind.__name__}.__init__"):
        for env in (bench.env, bench.subject.make()):
            env.close()
    yield from ()


def gymnasium(bench: Bench) -> Iterator[Problem]:
    """What gymnasium checks in every environment, its warnings included."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with blame(EnvironmentFault, "gymnasium"):
            env = bench.subject.make()
            env_checker.check_env(env, skip_render_check=True)
            env.close()
    for warning in caught:
        text = re.sub(r"\x1b\[\d+m", "", str(warning.message)).removeprefix("WARN: ")
        yield Problem(bench.subject.line("start", "reward"), f"gymnasium says: {text}", "Mend it.")


def scored(bench: Bench) -> Iterator[Problem]:
    """Whatever is said, the episode ends and is scored; nothing is printed."""
    said = io.StringIO()
    with redirect_stdout(said):
        why = next(chain(_said(bench), _cut(bench)), None)
    if why is not None:
        yield why
    if said.getvalue().strip():
        yield Problem(
            bench.subject.line("start"),
            f"it prints ({said.getvalue().strip()[:60]!r}). Thousands of episodes would too.",
            "Take the print out, or use logging.",
        )


def _said(bench: Bench) -> Iterator[Problem]:
    """What broke where something was said to the end of an episode."""
    first, *others = bench.tasks
    spoken = [(first, bench.words(first)), *((first, (text,)) for text in GARBAGE)]
    for task, words in (*spoken, *((task, (DUNNO,)) for task in others)):
        played = bench.play(task, words)[0]
        if played.stop is not Stop.ENV_ERROR:
            continue
        broke = _line(played.problem)
        where = bench.subject.told(played.problem)
        if played.turns:
            shown = repr("".join(words)[:40])
            yield Problem(where, f"the policy said {shown}, and it broke: {broke}", _ANSWER)
        else:
            yield Problem(where, f"an episode cannot begin: {broke}", "Mend that line.")


def _cut(bench: Bench) -> Iterator[Problem]:
    """What broke where a limit of the driver's ended an episode, at its begin or later."""
    task = bench.tasks[0]
    words = bench.words(task)
    for stop, count in ((Stop.CONTEXT, 0), (Stop.MAX_TOKENS, 1), (Stop.TIMEOUT, len(words) - 1)):
        end = asyncio.run(_ended(bench.subject.make(), task, words[:count], stop))
        if end.stop is Stop.ENV_ERROR:
            yield Problem(
                bench.subject.told(end.problem),
                f"the limit {stop} ended an episode after {count} turns, and it broke: "
                f"{_line(end.problem)}",
                "Score what there is, also where nothing was said.",
            )


async def _ended(env: ToolEnv, task: Task, words: Sequence[str], stop: Stop) -> EpisodeEnd:
    await env.areset(seed=SEED, options={"task": task})
    try:
        for text in words:
            if env.end is None:
                await env.astep(text)
        return await env.aend(stop)
    finally:
        await env.arelease()


def tokens(bench: Bench) -> Iterator[Problem]:
    """Token ids, mask and log-probs agree with the template, turn by turn."""
    for task in bench.tasks[:: len(bench.tasks) // 2 or 1]:
        env = bench.subject.make()
        played = bench.sound(task, bench.words(task), env)
        marks = {m for message in played.messages for m in _control(message)}
        if marks:
            yield Problem(
                bench.subject.line("start", "tasks"),
                f"its messages hold {', '.join(sorted(marks))}, which templates mean as the end "
                "of a turn.",
                "Write such marks otherwise in prompts and results.",
            )
            return
        why = next((w for b in played.branches if (w := _uneven(b))), "")
        why = why or _torn(bench, played, env)
        if why:
            yield Problem(
                bench.subject.line("start", "reply"),
                f"{why}.",
                "Leave areset, astep and tool_schemas as they are, and tools as they were at the "
                "episode's start.",
            )
            return


def _control(message: Message) -> list[str]:
    return [] if message["role"] == "assistant" else _CONTROL.findall(message["content"])


def _uneven(branch: Branch) -> str:
    ids, mask, logprobs = branch.input_ids, branch.loss_mask, branch.logprobs
    if not len(ids) == len(mask) == len(logprobs):
        return f"{len(ids)} ids, {len(mask)} of the mask, {len(logprobs)} log-probs"
    sampled = [span.kind == "sampled" for span in branch.spans for _ in span.ids]
    if [m == 1 for m in mask] != sampled:
        return "the mask is not 1 exactly where the policy spoke"
    return "" if any(mask) else "the policy said nothing in a branch"


def _torn(bench: Bench, played: Trajectory, env: ToolEnv) -> str:
    """Where the episode's tokens differ from the template's own rendering of it."""
    template = bench.renderer.calls.template
    branch = played.branches[-1]
    said = iter(
        template.decode(span.ids).removesuffix(template.decode(bench.renderer.closing[:1]))
        for b in played.branches
        for span in b.spans
        if span.kind == "sampled"
    )
    # As sampled, not as parsed: a template would write calls in its own way.
    plain = [
        Message(role="assistant", content=next(said, "")) if m["role"] == "assistant" else m
        for m in played.messages
    ]
    last = max(i for i, m in enumerate(plain) if m["role"] == "assistant")
    text = template.text(plain[: last + 1], env.tool_schemas(), prompt=False)
    ours = branch.input_ids
    full = template.encode(text)
    ending = len(template.encode(text)) - len(template.encode(text.rstrip("\n")))
    return difference(template.tokenizer, ours, full[: len(full) - ending]) or ""


def _line(text: str) -> str:
    text = " ".join(text.split())[:300]
    return text if text.endswith(".") else f"{text}."
