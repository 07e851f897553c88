"""A step's numbers under their names: the one table of metrics.

In    what the stages of a step returned
Out   one row of metrics.jsonl; METRICS says what each name means
Not   numbers of kept rows under names of all rows: `reward` is over every valid episode
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from agentrl.chosen import Chosen
from agentrl.figures import UpdateReport
from agentrl.trajectory import Stop, tool_calls, tool_failures

METRICS: dict[str, str] = {
    "step": "counts from 1",
    "version": "optimiser updates applied so far",
    "reward": "mean over all valid episodes that were played; with --pilot or --skip-flat that "
    "leaves tasks without contrast out, wholly or in part: see play/reward",
    "correct": "share of valid episodes that count as correct",
    "heldout": "accuracy on held-out tasks; null where not measured",
    "select/kept": "trajectories trained on",
    "select/of": "trajectories played",
    "select/tokens_kept": "tokens forwarded by the update",
    "select/tokens_all": "tokens of all valid trajectories",
    "select/spread_all": "variance of rewards, mean over groups",
    "select/spread_kept": "variance of kept rewards, mean over groups that kept any",
    "select/flat": "groups without contrast",
    "select/gap": "share of the best possible Q that was not reached",
    "select/price": "squared reward that a token more would bring; 0 where no budget binds",
    "select/length_ratio": "tokens of kept rows over those of average rows of equal reward",
    "select/starved": "groups with contrast of which the budget kept nothing",
    "plan/cap": "most tokens of a micro-batch",
    "plan/oversize": "trajectories too long for a micro-batch, refused before selection",
    "update/loss": "loss of the update",
    "update/grad_norm": "length of the gradient before clipping",
    "update/tokens": "tokens forwarded, without padding",
    "update/trained_tokens": "sampled tokens that carry loss",
    "update/micro_batches": "forward and backward passes",
    "update/entropy": "mean entropy at trained tokens, nats",
    "update/clip_fraction": "share of trained tokens whose ratio was clipped",
    "update/peak_bytes": "peak memory of the update",
    "update/oom_retries": "how often memory ran out and the update was done again",
    "plan/predicted_bytes": "peak memory foreseen",
    "stale/mean": "updates that a trajectory is behind the weights that learn from it, mean",
    "stale/max": "the same, most of any",
    "stale/dropped": "trajectories too far behind, refused before selection",
    "mismatch/k3": "drift between engine and learner, k3 estimate per token",
    "mismatch/capped": "share of trained tokens whose ratio to the engine was cut to the cap",
    "mismatch/masked": "rows too far from the policy that sampled them, left without weight",
    "env/turns": "turns an episode",
    "env/tool_calls": "calls an episode",
    "env/tool_failures": "share of calls that failed",
    "env/truncated": "episodes that a limit ended",
    "env/infra_errors": "episodes that infrastructure broke, also when they were played again",
    "env/refills": "times that an episode was played again because infrastructure broke it",
    "rollout/cancelled": "episodes that were begun and given up: their groups were complete",
    "rollout/length_bias": "mean of sampled tokens of the episodes that count over that of all "
    "that were begun; given up ones count what they had, so below 1 short ones were preferred",
    "tokens/sampled": "tokens sampled in the step",
    "engine/requests": "turns that the engine was asked for and that ended in the step",
    "engine/prompt_tokens": "tokens of their prompts",
    "engine/cached_tokens": "those of them whose keys and values the engine still had",
    "engine/prefix_hits": "cached_tokens over prompt_tokens; engines share whole blocks only",
    "engine/sampled_tokens": "tokens that the engine sampled",
    "engine/forwarded_tokens": "tokens that went through the engine's model",
    "engine/hand_overs": "hand-overs of weights to servers",
    "engine/retries": "requests that were sent to a server again",
    "engine/moved_sessions": "episodes that went on at another server",
    "engine/servers_lost": "servers that stopped answering",
    "engine/servers_back": "servers that answer again",
    "play/skipped": "tasks that were met and skipped: their last groups were flat",
    "play/returned": "tasks that would have been skipped, played in full by lot",
    "play/pilot_flat": "groups that ended after their pilot",
    "play/audited": "flat pilots whose groups were played in full by lot",
    "play/saved_tokens": "estimate of sampled tokens that were saved: what a pilot's episodes "
    "sampled, or those of a skipped task's last group, times the episodes left out",
    "play/wrongly_skipped": "share of skipped tasks that have contrast again, judged by those "
    "that returned, in about the last hundred steps; null before any did",
    "play/wrongly_stopped": "share of groups ended by their pilot that would have had contrast, "
    "judged by the audited ones; null before any was",
    "play/reward": "estimate of the mean reward of all tasks that were met, each in full and "
    "counted once: what the lot did not play enters with its pilot's mean or its last group's",
    "time/rollout": "seconds of play",
    "time/select": "seconds of selection",
    "time/update": "seconds of forward, backward and optimiser",
    "time/sync": "seconds of handing weights over",
    "time/idle_learner": "seconds in which training waited for play",
    "time/idle_engine": "seconds of the step in which nothing was played",
    "time/step": "seconds of all of it",
}


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
    row |= _select_part(chosen) | _env_part(chosen) | _update_part(update)
    row |= {f"time/{name}": value for name, value in seconds.items()}
    return row


def engine_part(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, Any]:
    """What an engine counted since then."""
    more = {name: count - before.get(name, 0) for name, count in now.items()}
    row: dict[str, Any] = {f"engine/{name}": count for name, count in more.items()}
    if more.get("prompt_tokens") and "cached_tokens" in more:
        row["engine/prefix_hits"] = more["cached_tokens"] / more["prompt_tokens"]
    return row


def _select_part(chosen: Chosen) -> dict[str, Any]:
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
