"""Where a step's time goes, and how far each phase is from a plain use of the same model.

    python benchmarks/step.py [--model tiny] [--env tool_math] [--tasks 4] [--n 32] [--m 8]

Interleaved in one process, on the same episodes with the same sampling:

rollout    this engine, against one batched `model.generate` per turn
update     this learner, against a bare forward and backward over the same padded rows
step       rollout, selection and update for n = m and for m of n

Prints a table of medians and ratios, then JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from agentrl.chosen import Chosen, choose, samples
from agentrl.engines.transformers import TransformersEngine
from agentrl.engines.wave import Waves
from agentrl.group import Group, play_groups, seed_for
from agentrl.mixture import mixture_of
from agentrl.plan import plan
from agentrl.policy import Completion, Engine, Request, WeightSource
from agentrl.render import renderer_for
from agentrl.sample import Sample
from agentrl.sections import RolloutSection
from agentrl.selection.question import Question
from agentrl.task import Task
from agentrl.update import Learner
from agentrl.weights import Policy, load_policy
from agentrl.world import play_of

CAP = 8192
"""Tokens of a micro-batch, padding included."""


class GenerateEngine:
    """The plain way: every wave is one `model.generate` over whole left-padded prompts."""

    name = "generate"
    wave = True
    inflight = False
    max_live = 1024

    def __init__(self, policy: Policy, max_context: int) -> None:
        """Share the policy's model."""
        self._model = policy.model
        self.max_context = max_context
        self._waves = Waves(self._answer)

    @contextmanager
    def episodes(self, sessions: Sequence[tuple[int, int]]) -> Iterator[None]:
        """Declare who plays."""
        with self._waves.episodes(sessions):
            yield

    def finish(self, session: tuple[int, int]) -> None:
        """An episode will ask no more."""
        self._waves.finish(session)

    async def generate(self, request: Request) -> Completion:
        """Wait for the wave."""
        return await self._waves.ask(request)

    async def load(self, source: WeightSource, version: int) -> None:
        """The model is shared."""

    async def sleep(self) -> None:
        """The model is shared."""

    async def wake(self) -> None:
        """Nothing was given back."""

    def counters(self) -> Mapping[str, float]:
        """Nothing is counted."""
        return {}

    async def close(self) -> None:
        """Nothing is held."""

    async def _answer(self, requests: Sequence[Request]) -> list[Completion]:
        return await asyncio.to_thread(self._run, requests)

    @torch.no_grad()
    def _run(self, requests: Sequence[Request]) -> list[Completion]:
        longest = max(len(r.prompt_ids) for r in requests)
        ids = torch.zeros(len(requests), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, r in enumerate(requests):
            ids[row, longest - len(r.prompt_ids) :] = torch.tensor(r.prompt_ids)
            mask[row, longest - len(r.prompt_ids) :] = 1
        stops = list(requests[0].stop_token_ids)
        torch.manual_seed(requests[0].seed % 2**31)
        out = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=max(r.max_tokens for r in requests),
            eos_token_id=stops,
            pad_token_id=stops[0],
            output_logits=True,
            return_dict_in_generate=True,
        )
        new = out.sequences[:, longest:]
        logprobs = torch.stack(out.logits, 1).float().log_softmax(-1)
        picked = logprobs.gather(2, new[..., None])[..., 0]
        return [
            _cut(row.tolist(), values.tolist(), stops)
            for row, values in zip(new, picked, strict=True)
        ]


def _cut(ids: list[int], logprobs: list[float], stops: Sequence[int]) -> Completion:
    end = next((i + 1 for i, token in enumerate(ids) if token in stops), len(ids))
    reason = "stop" if ids[end - 1] in stops else "length"
    return Completion(tuple(ids[:end]), tuple(logprobs[:end]), reason, 0)  # type: ignore[arg-type]


class Bench:
    """One policy, one environment, and the ways of using them."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Load everything once."""
        self.args = args
        self.policy = load_policy(args.model)
        self.mixture = mixture_of(args.env, {})
        self.source = self.mixture.source("train")
        self.renderer = renderer_for(self.policy.tokenizer)
        self.rollout = RolloutSection()
        self.learner = Learner(self.policy.model, lr=1e-12, tokens_per_micro_batch=CAP)
        self.ours: Engine = TransformersEngine(
            self.policy.model, max_context=self.rollout.max_context, max_live=1024
        )
        self.plain: Engine = GenerateEngine(self.policy, self.ours.max_context)

    def tasks(self, round_: int) -> list[Task]:
        """Fresh tasks each round."""
        return [self.source[round_ * self.args.tasks + i] for i in range(self.args.tasks)]

    def play(self, engine: Engine, round_: int) -> list[Group]:
        """One rollout phase."""
        world = play_of(self.rollout, engine, self.renderer, "train")
        return asyncio.run(
            play_groups(
                self.mixture.make,
                self.tasks(round_),
                n=self.args.n,
                seed_of=lambda task, member: seed_for(0, round_, task.hash, member),
                world=world,
            )
        )

    def bare(self, rows: Sequence[Sample]) -> None:
        """Forward with logits everywhere, cross entropy, backward: no selection of positions."""
        model = self.policy.model
        (batches,) = plan([len(r.input_ids) for r in rows], CAP, packed=False)
        for batch in batches:
            chosen = [rows[i] for i in batch.rows]
            longest = max(len(r.input_ids) for r in chosen)
            ids = torch.zeros(len(chosen), longest, dtype=torch.long)
            labels = torch.full_like(ids, -100)
            for row, sample in enumerate(chosen):
                tokens = torch.tensor(sample.input_ids)
                ids[row, : len(tokens)] = tokens
                labels[row, : len(tokens)] = torch.where(
                    torch.tensor(sample.loss_mask, dtype=torch.bool), tokens, -100
                )
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), labels[:, 1:].flatten()
            )
            loss.backward()
        model.zero_grad()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def one_round(bench: Bench, round_: int) -> dict[str, float]:
    """All arms once, on one set of episodes."""
    args = bench.args
    order = np.random.default_rng(round_).permutation(2)
    played: dict[str, tuple[float, list[Group]]] = {}
    for which in order:
        name, engine = [("ours", bench.ours), ("plain", bench.plain)][which]
        played[name] = timed(lambda engine=engine: bench.play(engine, round_))
    groups = played["ours"][1]
    out = {f"rollout_{k}": v[0] for k, v in played.items()}
    out |= {f"sampled_{k}": float(_sampled(v[1])) for k, v in played.items()}
    rows: dict[str, list[Sample]] = {}
    for name, m, rule in (("all", args.n, "all"), ("pods", args.m, "max_variance")):
        seconds, chosen = timed(lambda m=m, rule=rule: _choose(groups, m, rule))
        rows[name] = samples(chosen)
        out[f"select_{name}"] = seconds
        out[f"update_{name}"], report = timed(
            lambda name=name, chosen=chosen: bench.learner.step(rows[name], len(chosen.kept))
        )
        out[f"tokens_{name}"] = float(report.tokens)
        out[f"bare_{name}"], _ = timed(lambda name=name: bench.bare(rows[name]))
    return out


def _choose(groups: Sequence[Group], m: int, rule: str) -> Chosen:
    return choose(groups, Question(rule, "auto", m), stats="subset", loss="grpo", seed=0)


def _sampled(groups: Sequence[Group]) -> int:
    return sum(t.num_trained_tokens for g in groups for t in g.trajectories)


def report(rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Medians of each arm, and of ratios round by round."""

    def median(of: Callable[[dict[str, float]], float]) -> float:
        return statistics.median(of(r) for r in rounds)

    def rate(tokens: str, seconds: str) -> float:
        return median(lambda r: r[tokens] / r[seconds])

    split = {
        arm: {p: median(lambda r, k=k: r[k]) for p, k in (
            ("rollout", "rollout_ours"), ("select", f"select_{arm}"), ("update", f"update_{arm}"),
        )}
        for arm in ("all", "pods")
    }  # fmt: skip
    return {
        "rollout tokens/s": rate("sampled_ours", "rollout_ours"),
        "generate tokens/s": rate("sampled_plain", "rollout_plain"),
        "rollout ratio": median(
            lambda r: (
                r["sampled_ours"] / r["rollout_ours"] / (r["sampled_plain"] / r["rollout_plain"])
            )
        ),
        "update tokens/s": rate("tokens_all", "update_all"),
        "bare tokens/s": rate("tokens_all", "bare_all"),
        "update ratio": median(lambda r: r["bare_all"] / r["update_all"]),
        "update ratio, m of n": median(lambda r: r["bare_pods"] / r["update_pods"]),
        "step": split,
    }


def main() -> None:
    """Run the rounds and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--env", default="tool_math")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--m", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    bench = Bench(args)
    one_round(bench, 0)
    found = report([one_round(bench, i + 1) for i in range(args.rounds)])
    for key, value in found.items():
        if key != "step":
            print(f"{key:<24}{value:10.2f}")
    for arm, title in (("all", f"n = m = {args.n}"), ("pods", f"n = {args.n}, m = {args.m}")):
        parts = found["step"][arm]
        whole = sum(parts.values())
        shares = "  ".join(f"{p} {s:.3f}s {s / whole:4.0%}" for p, s in parts.items())
        print(f"{title:<24}{whole:8.3f}s  {shares}")
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__}
    print(json.dumps({**machine, **vars(args), **found}))


if __name__ == "__main__":
    main()
