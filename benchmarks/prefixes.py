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

Then what sharing saves in time: forward and backward of the rows kept by max variance (m = 8), rows
packed into micro-batches of 8,192 tokens one task after the other, against one micro-batch a task
with its prompt once; the embedded policy, and two layers of random weights that are four times as
wide. Medians of turns taken in one process; `gradients` is the length of their difference over
their own.

Last line: JSON. --quick: one task.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tables import machine, show, timed
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from agentrl import registry
from agentrl.chosen import choose, samples
from agentrl.engines.transformers import TransformersEngine
from agentrl.errors import UsageError
from agentrl.group import Group, play_groups, seed_for
from agentrl.head import score
from agentrl.layout import lay_out
from agentrl.mixture import mixture_of
from agentrl.opening import opening_of
from agentrl.plan import plan
from agentrl.prefix import prompt_tokens, score_shared, share, sharing
from agentrl.render import renderer_for
from agentrl.rowwise import by_rows
from agentrl.sample import Sample
from agentrl.sections import RolloutSection
from agentrl.selection import select
from agentrl.selection.question import Question
from agentrl.weights import Policy, load_policy
from agentrl.world import play_of

HERE = Path(__file__).resolve().parent
N = 32
M = 8
WAYS = ((N, "all"), (M, "max_variance"))
TIMED = {"tool_math": 8, "ten tools, short": 1}
"""How many groups are timed, at most."""
TURNS = 3
TRAINED = 0.4
"""Of the tokens of a continuation that is laid out."""
CAP = 8192
PLAYED = {
    "tool_math": ("tool_math", {}),
    "tool_math, long results": (f"{HERE / 'long_results.py'}:LongResults", {"lines": 400}),
}
MEANS = {"short": 400, "long": 4000}
SIGMA = 0.8

Row = tuple[int, ...]
Kept = dict[int, list[list[Sample]]]
"""By m: what is kept of each group."""


def played(policy: Policy, name: str, options: dict[str, Any], tasks: int) -> Kept:
    """Both ways of keeping, from the same episodes."""
    renderer = renderer_for(policy.tokenizer)
    rollout = RolloutSection()
    engine = TransformersEngine(policy.model, max_context=rollout.max_context, max_live=N)
    mixture = mixture_of(name, options)
    source = mixture.source("train")
    groups = asyncio.run(
        play_groups(
            mixture.make,
            [source[i] for i in range(tasks)],
            n=N,
            seed_of=lambda task, member: seed_for(0, 0, task.hash, member),
            world=play_of(rollout, engine, renderer, "train"),
        )
    )
    return {m: [_kept_of(group, m, rule) for group in groups] for m, rule in WAYS}


def _kept_of(group: Group, m: int, rule: str) -> list[Sample]:
    question = Question(rule, "auto", m)
    return samples(choose([group], question, stats="subset", loss="grpo", seed=0))


def laid_out(policy: Policy, tasks: int, mean: int) -> Kept:
    """The help desk: real prompts, continuations of random tokens."""
    env = registry.make(f"{HERE / 'many_tools.py'}:ManyTools")
    renderer = renderer_for(policy.tokenizer)
    source = env.task_source("train")
    rng = np.random.default_rng(mean)
    kept: Kept = {m: [] for m, _ in WAYS}
    for i in range(tasks):
        opening = opening_of(env.system_prompt, source[i % len(source)])
        prompt = tuple(renderer.render(opening, env.tool_schemas()))
        lengths = rng.lognormal(np.log(mean) - SIGMA**2 / 2, SIGMA, N).astype(int) + 1
        rows = [_row(rng, prompt, int(n), len(policy.tokenizer)) for n in lengths]
        rewards = rng.integers(0, 2, N).astype(float)
        for m, rule in WAYS:
            found = select(rewards, [len(r.input_ids) for r in rows], m=m, rule=rule, seed=0)
            kept[m].append([rows[row] for row in found.indices])
    return kept


def _row(rng: np.random.Generator, prompt: Row, length: int, vocabulary: int) -> Sample:
    said = tuple(rng.integers(0, vocabulary, length).tolist())
    mask = (0,) * len(prompt) + (1, *(rng.random(length - 1) < TRAINED).astype(int).tolist())
    return Sample(prompt + said, mask, (float("nan"),) * len(mask), float(rng.normal()))


def shares(kept: Sequence[Sequence[Sample]]) -> dict[str, float]:
    """What the kept rows of groups have in common, over all that is forwarded."""
    groups = [[s.input_ids for s in rows] for rows in kept if rows]
    total = sum(len(row) for rows in groups for row in rows)
    common = [common_prefix(rows) for rows in groups]
    prompts = [prompt_tokens(s) for rows in kept for s in rows]
    return {
        "prompt": round(np.mean(prompts)),
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


def saved_within_cap(rows: Sequence[Row]) -> int:
    """Tokens saved where the plan, made without regard to prefixes, puts rows together."""
    (batches,) = plan([len(row) for row in rows], max(CAP, *map(len, rows)))
    prefix = common_prefix(rows)
    return sum(prefix * (len(batch.rows) - 1) for batch in batches)


def wide(vocabulary: int) -> PreTrainedModel:
    """Two layers of random weights, four times as wide as those of the embedded policy."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=32768,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def compared(model: PreTrainedModel, groups: Sequence[list[Sample]], turns: int) -> dict[str, Any]:
    """Seconds of both ways, and how far their gradients are apart."""
    rows = [s for group in groups for s in group]
    (batches,) = plan([len(s.input_ids) for s in rows], CAP)
    ways: dict[str, list[list[Sample]]] = {
        "apart": [[rows[i] for i in batch.rows] for batch in batches],
        "shared": list(groups),
    }
    spent: dict[str, list[float]] = {way: [] for way in ways}
    gradients: dict[str, torch.Tensor] = {}
    for _ in range(turns):
        for way, parts in ways.items():
            model.zero_grad()
            milliseconds, _ = timed(lambda parts=parts, way=way: _learn(model, parts, way))
            spent[way].append(milliseconds / 1e3)
            gradients[way] = torch.cat([p.grad.flatten() for p in model.parameters()])
    apart, shared = (statistics.median(spent[way]) for way in ways)
    gap = (gradients["apart"] - gradients["shared"]).norm() / gradients["apart"].norm()
    tokens = sum(len(s.input_ids) for s in rows)
    once = sum(prompt_tokens(g[0]) - sum(map(prompt_tokens, g)) for g in groups if g)
    return {
        "tokens": tokens,
        "shared tokens": tokens + once,
        "apart s": apart,
        "shared s": shared,
        "times as fast": apart / shared,
        "gradients": gap.item(),
    }


def _learn(model: PreTrainedModel, parts: Sequence[Sequence[Sample]], way: str) -> None:
    with sharing(model) if way == "shared" else by_rows(model):
        for chosen in parts:
            rows = lay_out(chosen, [1.0] * len(chosen), packed=True)
            if way == "shared":
                found = score_shared(model, share(rows, [prompt_tokens(s) for s in chosen]))
            else:
                found = score(model, rows.ids, rows.at, rows.labels, lengths=rows.lengths)
            (found.logprobs * rows.advantages).sum().backward()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    tasks = 1 if args.quick else args.tasks
    tiny = load_policy("tiny")
    kept = {(title, "tiny"): played(tiny, *of, tasks) for title, of in PLAYED.items()}
    policies = [tiny]
    try:
        policies.append(load_policy("smollm2-135m"))
    except UsageError as error:
        print(error)
    for policy in policies:
        for size, mean in MEANS.items():
            kept[f"ten tools, {size}", policy.name] = laid_out(policy, tasks, mean)
    table = [
        {"environment": title, "tokens of": name, "m": m, **shares(groups)}
        for (title, name), ways in kept.items()
        for m, groups in ways.items()
    ]
    show(f"prefixes common to the kept rows of a group, n = {N}", table)
    turns = 1 if args.quick else TURNS
    models = {"tiny": tiny.model, "wide": wide(len(tiny.tokenizer))}
    times = [
        {
            "environment": title,
            "model": name,
            **compared(model, kept[title, "tiny"][M][:most], turns),
        }
        for title, most in TIMED.items()
        for name, model in models.items()
    ]
    show(f"forward and backward of the kept rows, m = {M}", times)
    print(json.dumps({**machine(), "tasks": tasks, "rows": table, "times": times}))


if __name__ == "__main__":
    main()
