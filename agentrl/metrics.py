"""A step's numbers under their names: the one table of metrics.

In    what the stages of a step returned
Out   one row of metrics.jsonl; METRICS says what each name means
Not   numbers of kept rows under names of all rows: `reward` is over every valid episode
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agentrl.chosen import Chosen
from agentrl.figures import UpdateReport
from agentrl.trajectory import Stop, tool_calls, tool_failures


@dataclass(frozen=True, slots=True)
class Metric:
    """What a name in metrics.jsonl stands for."""

    unit: str
    meaning: str


METRICS: dict[str, Metric] = {
    "step": Metric("step", "counts from 1"),
    "version": Metric("updates", "of the optimiser applied so far"),
    "reward": Metric(
        "reward",
        "mean over all valid episodes that were played; with --pilot or --skip-flat that "
        "leaves tasks without contrast out, wholly or in part: see play/reward",
    ),
    "correct": Metric("share", "share of valid episodes that count as correct"),
    "heldout": Metric("share", "accuracy on held-out tasks; null where not measured"),
    "select/kept": Metric("trajectories", "trained on"),
    "select/of": Metric("trajectories", "played"),
    "select/tokens_kept": Metric("tokens", "forwarded by the update"),
    "select/tokens_all": Metric("tokens", "of all valid trajectories"),
    "select/spread_all": Metric("reward²", "variance of rewards, mean over groups"),
    "select/spread_kept": Metric(
        "reward²",
        "variance of kept rewards, mean over groups that kept any",
    ),
    "select/flat": Metric("groups", "without contrast"),
    "select/gap": Metric("share", "share of the best possible Q that was not reached"),
    "select/price": Metric(
        "reward² a token",
        "squared reward that a token more would bring; 0 where no budget binds",
    ),
    "select/length_ratio": Metric(
        "ratio",
        "tokens of kept rows over those of average rows of equal reward",
    ),
    "select/starved": Metric("groups", "with contrast of which the budget kept nothing"),
    "plan/cap": Metric("tokens", "most of a micro-batch"),
    "plan/oversize": Metric("trajectories", "too long for a micro-batch, refused before selection"),
    "update/loss": Metric("loss", "loss of the update"),
    "update/grad_norm": Metric("norm", "length of the gradient before clipping"),
    "update/tokens": Metric("tokens", "forwarded, without padding"),
    "update/trained_tokens": Metric("tokens", "sampled ones that carry loss"),
    "update/micro_batches": Metric("passes", "forward and backward, one a micro-batch"),
    "update/entropy": Metric("nats a token", "mean entropy at trained tokens"),
    "update/clip_fraction": Metric("share", "share of trained tokens whose ratio was clipped"),
    "update/peak_bytes": Metric("bytes", "peak memory of the update"),
    "update/oom_retries": Metric("times", "that memory ran out and the update was done again"),
    "plan/predicted_bytes": Metric("bytes", "peak memory foreseen"),
    "stale/mean": Metric(
        "updates",
        "that a trajectory is behind the weights that learn from it, mean",
    ),
    "stale/max": Metric("updates", "the same, most of any"),
    "stale/dropped": Metric("trajectories", "too far behind, refused before selection"),
    "mismatch/k3": Metric("nats a token", "drift between engine and learner, k3 estimate"),
    "mismatch/capped": Metric(
        "share",
        "share of trained tokens whose ratio to the engine was cut to the cap",
    ),
    "mismatch/masked": Metric(
        "trajectories",
        "too far from the policy that sampled them, left without weight",
    ),
    "env/turns": Metric("turns", "of an episode, mean"),
    "env/tool_calls": Metric("calls", "of an episode, mean"),
    "env/tool_failures": Metric("share", "calls that failed, of all calls"),
    "env/truncated": Metric("episodes", "that a limit ended"),
    "env/infra_errors": Metric(
        "episodes",
        "that infrastructure broke, also when they were played again",
    ),
    "env/refills": Metric(
        "times",
        "that an episode was played again because infrastructure broke it",
    ),
    "rollout/cancelled": Metric(
        "episodes",
        "that were begun and given up: their groups were complete",
    ),
    "rollout/length_bias": Metric(
        "ratio",
        "mean of sampled tokens of the episodes that count over that of all that were begun; "
        "given up ones count what they had, so below 1 short ones were preferred",
    ),
    "tokens/sampled": Metric("tokens", "sampled in the step"),
    "engine/requests": Metric("turns", "that the engine was asked for and that ended in the step"),
    "engine/prompt_tokens": Metric("tokens", "of the prompts of these turns"),
    "engine/cached_tokens": Metric(
        "tokens",
        "those of the prompts whose keys and values the engine still had",
    ),
    "engine/prefix_hits": Metric(
        "share",
        "cached_tokens over prompt_tokens; engines share whole blocks only",
    ),
    "engine/sampled_tokens": Metric("tokens", "that the engine sampled"),
    "engine/forwarded_tokens": Metric("tokens", "that went through the engine's model"),
    "engine/hand_overs": Metric("times", "that servers were handed weights"),
    "engine/retries": Metric("requests", "that were sent to a server again"),
    "engine/moved_sessions": Metric("episodes", "that went on at another server"),
    "engine/servers_lost": Metric("servers", "that stopped answering"),
    "engine/servers_back": Metric("servers", "that answer again"),
    "play/skipped": Metric("tasks", "that were met and skipped: their last groups were flat"),
    "play/returned": Metric("tasks", "that would have been skipped, played in full by lot"),
    "play/pilot_flat": Metric("groups", "that ended after their pilot"),
    "play/audited": Metric("groups", "with a flat pilot that were played in full by lot"),
    "play/saved_tokens": Metric(
        "tokens",
        "estimate of sampled tokens that were saved: what a pilot's episodes sampled, or "
        "those of a skipped task's last group, times the episodes left out",
    ),
    "play/wrongly_skipped": Metric(
        "share",
        "share of skipped tasks that have contrast again, judged by those that returned, in "
        "about the last hundred steps; null before any did",
    ),
    "play/wrongly_stopped": Metric(
        "share",
        "share of groups ended by their pilot that would have had contrast, judged by the "
        "audited ones; null before any was",
    ),
    "play/reward": Metric(
        "reward",
        "estimate of the mean reward of all tasks that were met, each in full and counted "
        "once: what the lot did not play enters with its pilot's mean or its last group's",
    ),
    "time/rollout": Metric("s", "of play"),
    "time/select": Metric("s", "of selection"),
    "time/update": Metric("s", "of forward, backward and optimiser"),
    "time/sync": Metric("s", "of handing weights over"),
    "time/idle_learner": Metric("s", "in which training waited for play"),
    "time/idle_engine": Metric("s", "of the step in which nothing was played"),
    "time/step": Metric("s", "of all of it"),
}
"""Every row has all of these names."""

SOMETIMES: dict[str, Metric] = {
    "heldout/ENV": Metric("share", "of a mixture: accuracy on held-out tasks of that environment"),
    "curriculum/LEVEL": Metric("share", "with --train.curriculum: chance that a task is taken"),
    "epoch": Metric("epoch", "of `agentrl sft`: counts from 1"),
    "sft/loss": Metric("nats a token", "of `agentrl sft`: loss on the trajectories of the update"),
    "sft/heldout": Metric("nats a token", "of `agentrl sft`: loss on held-out trajectories"),
}
"""Names that rows of some runs have beside them."""


def step_row(
    *,
    step: int,
    version: int,
    chosen: Chosen,
    update: UpdateReport | None,
    seconds: dict[str, float],
    cap: int,
    predicted: int | None,
) -> dict[str, Any]:
    """One row; a name whose part does not exist is null."""
    row: dict[str, Any] = dict.fromkeys(METRICS)
    row |= {"step": step, "version": version, "plan/cap": cap, "plan/predicted_bytes": predicted}
    row |= select_part(chosen) | _env_part(chosen) | _update_part(update)
    row |= {f"time/{name}": value for name, value in seconds.items()}
    return row


def engine_part(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, Any]:
    """What an engine counted since then."""
    more = {name: count - before.get(name, 0) for name, count in now.items()}
    row: dict[str, Any] = {f"engine/{name}": count for name, count in more.items()}
    if more.get("prompt_tokens") and "cached_tokens" in more:
        row["engine/prefix_hits"] = more["cached_tokens"] / more["prompt_tokens"]
    return row


def select_part(chosen: Chosen) -> dict[str, Any]:
    """What selection came to."""
    report = chosen.selection.report
    groups = list(report.groups.values())
    return {
        "select/kept": report.kept,
        "select/of": report.of,
        "select/tokens_kept": report.tokens_kept,
        "select/tokens_all": report.tokens_all,
        "select/spread_all": _mean([g.spread_all for g in groups]),
        "select/spread_kept": _mean([g.spread_kept for g in groups if g.kept]),
        "select/flat": sum(g.flat for g in groups),
        "select/gap": report.gap,
        "plan/oversize": chosen.oversize,
        "stale/mean": _mean(chosen.staleness),
        "stale/max": max(chosen.staleness, default=None),
        "stale/dropped": chosen.stale,
        "select/price": report.price,
        "select/length_ratio": report.length_ratio,
        "select/starved": sum(not (g.flat or g.kept) for g in groups),
    }


def _env_part(chosen: Chosen) -> dict[str, Any]:
    every = chosen.trajectories
    valid = [t for t in every if t.valid]
    calls = sum(tool_calls(t.turns) for t in every)
    failures = sum(tool_failures(t.turns) for t in every)
    return {
        "reward": _mean([t.reward for t in valid if t.reward is not None]),
        "correct": _mean([float(bool(t.correct)) for t in valid]),
        "env/turns": _mean([float(len(t.turns)) for t in every]),
        "env/tool_calls": calls / max(1, len(every)),
        "env/tool_failures": failures / max(1, calls),
        "env/truncated": sum(t.stop.status == "truncated" for t in every),
        "env/infra_errors": sum(t.stop is Stop.ENV_ERROR for t in every),
        "tokens/sampled": sum(t.num_trained_tokens for t in every),
    }


def _update_part(update: UpdateReport | None) -> dict[str, Any]:
    if update is None:
        return {"update/tokens": 0, "update/trained_tokens": 0}
    return {
        "update/loss": update.loss,
        "update/grad_norm": update.grad_norm,
        "update/tokens": update.tokens,
        "update/trained_tokens": update.trained_tokens,
        "update/micro_batches": update.micro_batches,
        "update/entropy": update.entropy,
        "update/clip_fraction": update.clip_fraction,
        "update/peak_bytes": update.peak_bytes,
        "update/oom_retries": update.oom_retries,
        "mismatch/k3": update.k3,
        "mismatch/capped": update.capped,
        "mismatch/masked": update.masked,
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
