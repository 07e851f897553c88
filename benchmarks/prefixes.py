"""How much of what an update forwards is a prefix that a group's kept rows have in common.

    python benchmarks/prefixes.py [--tasks 8] [--quick]

Played: the embedded policy on tool_math (short trajectories), and with a calculator that adds a
log to its results (long ones). Laid out, not played: a help desk with ten tools in long schemas;
rows are its real prompt and a continuation of lognormal (0.8) length, mean 400 or 4,000 tokens,
rewarded by lot. Prompts are counted in tokens of the embedded policy (786 entries, so many), and
of SmolLM2 (49,152 entries) where that model is at hand.

prompt    tokens of the prompt
row       mean tokens of a kept row
common    share of forwarded tokens in a prefix that all kept rows of their group begin with
saved     share that need not be forwarded if that prefix is computed once in each group
tree      the same where prefixes that only some rows of a group share are computed once too
same cap  the same as `saved`, if a prefix is shared only inside a micro-batch of 8,192 tokens

Last line: JSON. --quick: one task.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tables import machine, show

from agentrl.chosen import choose, samples
from agentrl.config import RolloutSection
from agentrl.engines.transformers import TransformersEngine
from agentrl.env import opening_of
from agentrl.errors import UsageError
from agentrl.group import play_groups, seed_for
from agentrl.plan import plan
from agentrl.render import Renderer, renderer_for
from agentrl.selection import select
from agentrl.selection.question import Question
from agentrl.weights import Policy, load_policy
from agentrl.world import env_maker, play_of

HERE = Path(__file__).resolve().parent
N = 32
WAYS = ((32, "all"), (8, "max_variance"))
CAP = 8192
PLAYED = {
    "tool_math": ("tool_math", {}),
    "tool_math, long results": (f"{HERE / 'long_results.py'}:LongResults", {"lines": 400}),
}
MEANS = {"short": 400, "long": 4000}
SIGMA = 0.8

Row = tuple[int, ...]
Rows = list[Row]
"""Kept rows of one group, as token ids."""


def played(policy: Policy, name: str, options: dict[str, Any], tasks: int) -> list[dict[str, Any]]:
    """One table row for each way, from the same episodes."""
    renderer = renderer_for(policy.tokenizer)
    rollout = RolloutSection()
    engine = TransformersEngine(policy.model, max_context=rollout.max_context, max_live=N)
    make = env_maker(name, options)
    source = make().task_source("train")
    groups = asyncio.run(
        play_groups(
            make,
            [source[i] for i in range(tasks)],
            n=N,
            seed_of=lambda task, member: seed_for(0, 0, task.hash, member),
            world=play_of(rollout, engine, renderer, "train"),
        )
    )
    prompt = [len(t.branches[0].spans[0].ids) for g in groups for t in g.trajectories]
    table = []
    for m, rule in WAYS:
        kept = [_kept_of([group], m, rule) for group in groups]
        table.append({"m": m, "prompt": int(np.mean(prompt)), **shares(kept)})
    return table


def _kept_of(groups: Sequence[Any], m: int, rule: str) -> Rows:
    chosen = choose(groups, Question(rule, "auto", m), stats="subset", loss="grpo", seed=0)
    return [s.input_ids for s in samples(chosen)]


def laid_out(renderer: Renderer, tasks: int, mean: int) -> list[dict[str, Any]]:
    """The help desk: real prompts, continuations that have no token in common."""
    make = env_maker(f"{HERE / 'many_tools.py'}:ManyTools", {})
    env = make()
    source = env.task_source("train")
    rng = np.random.default_rng(mean)
    groups = []
    for i in range(tasks):
        opening = opening_of(env.system_prompt, source[i % len(source)])
        prompt = tuple(renderer.render(opening, env.tool_schemas()))
        lengths = rng.lognormal(np.log(mean) - SIGMA**2 / 2, SIGMA, N).astype(int) + 1
        rewards = rng.integers(0, 2, N).astype(float)
        groups.append((prompt, lengths, rewards))
    table = []
    for m, rule in WAYS:
        kept = []
        for prompt, lengths, rewards in groups:
            tokens = [len(prompt) + int(n) for n in lengths]
            rows = select(rewards, tokens, m=m, rule=rule, seed=0).indices
            kept.append([prompt + (-1 - row,) * int(lengths[row]) for row in rows])
        table.append({"m": m, "prompt": int(np.mean([len(p) for p, *_ in groups])), **shares(kept)})
    return table


def shares(groups: Sequence[Rows]) -> dict[str, float]:
    """What the kept rows of groups have in common, over all that is forwarded."""
    groups = [rows for rows in groups if rows]
    total = sum(len(row) for rows in groups for row in rows)
    common = [common_prefix(rows) for rows in groups]
    return {
        "rows": sum(len(rows) for rows in groups),
        "row": total / sum(len(rows) for rows in groups),
        "common": sum(c * len(r) for c, r in zip(common, groups, strict=True)) / total,
        "saved": sum(c * (len(r) - 1) for c, r in zip(common, groups, strict=True)) / total,
        "tree": 1 - sum(distinct(rows) for rows in groups) / total,
        "same cap": sum(map(saved_within_cap, groups)) / total,
    }


def common_prefix(rows: Sequence[Row]) -> int:
    """Tokens that all rows begin with."""
    first, last = min(rows), max(rows)
    ends = (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return next(ends, min(len(first), len(last)))


def distinct(rows: Sequence[Row]) -> int:
    """Tokens that are forwarded if every shared beginning is forwarded once."""
    ordered = sorted(rows)
    again = sum(common_prefix(pair) for pair in pairwise(ordered))
    return sum(map(len, rows)) - again


def saved_within_cap(rows: Rows) -> int:
    """Tokens saved where the plan, made without regard to prefixes, puts rows together."""
    (batches,) = plan([len(row) for row in rows], max(CAP, *map(len, rows)))
    prefix = common_prefix(rows)
    return sum(prefix * (len(batch.rows) - 1) for batch in batches)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    tasks = 1 if args.quick else args.tasks
    table: list[dict[str, Any]] = []
    for name in ("tiny", "smollm2-135m"):
        try:
            policy = load_policy(name)
        except UsageError as error:
            print(error)
            continue
        if name == "tiny":
            for title, (env, options) in PLAYED.items():
                rows = played(policy, env, options, tasks)
                table += [{"environment": title, "tokens of": name, **row} for row in rows]
        renderer = renderer_for(policy.tokenizer)
        for size, mean in MEANS.items():
            rows = laid_out(renderer, tasks, mean)
            table += [
                {"environment": f"ten tools, {size}", "tokens of": name, **row} for row in rows
            ]
    show(f"prefixes common to the kept rows of a group, n = {N}", table)
    print(json.dumps({**machine(), "tasks": tasks, "rows": table}))


if __name__ == "__main__":
    main()
