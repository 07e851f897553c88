"""Figures of a run → what is normal for each, and whether it is: one table of rules.

In    Facts of a training run
Out   Finding: the figure, a sentence on what is normal, what to do where it is not
Not   a verdict: a run may be healthy and learn nothing, or learn in spite of a figure

A rule looks at all steps, or at the last ones, and says nothing where no step has the figure. Its
limits are wide: they are meant to find what is broken, not what could be better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from agentrl.report.facts import Facts
from agentrl.report.lines import number as finite
from agentrl.report.series import Value, mean, of, total
from agentrl.report.words import count, number, percent
from agentrl.selection.report import SHORT

State = Literal["fine", "look"]
RECENT = 10
"""Steps that `the last steps` are."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one figure should be."""

    name: str
    figure: Callable[[Facts], float | None]
    show: Callable[[float | None], str]
    most: float
    """More than this is worth a look."""
    normal: str
    cure: str
    least: float = -math.inf
    """So is less than this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found by one rule, a figure for each run."""

    name: str
    shown: tuple[str, ...]
    """None of a run is a dash."""
    states: tuple[State | None, ...]
    """None where a run does not have the figure."""
    normal: str
    cure: str
    """Empty where all is fine."""


def findings(every: Sequence[Facts]) -> list[Finding]:
    """Every rule that any of the runs has a figure for."""
    found = []
    for rule in RULES:
        figures = [rule.figure(facts) if facts.kind == "train" else None for facts in every]
        if any(figure is not None for figure in figures):
            found.append(_finding(rule, figures))
    return found


def _finding(rule: Rule, figures: Sequence[float | None]) -> Finding:
    states = tuple(None if f is None else _state(rule, f) for f in figures)
    return Finding(
        rule.name,
        tuple(rule.show(figure) for figure in figures),
        states,
        rule.normal,
        rule.cure if "look" in states else "",
    )


def _state(rule: Rule, figure: float) -> State:
    return "fine" if rule.least <= figure <= rule.most else "look"


def _mean(metric: str, last: int = 0) -> Callable[[Facts], float | None]:
    return lambda facts: mean(facts, of(metric), last=last)


def _values(facts: Facts, value: Value) -> list[float]:
    return [v for v in map(value, facts.rows) if v is not None]


def _largest(metric: str) -> Callable[[Facts], float | None]:
    return lambda facts: max(map(abs, _values(facts, of(metric))), default=None)


def _sum(metric: str) -> Callable[[Facts], float | None]:
    return lambda facts: total(facts, metric) if _values(facts, of(metric)) else None


def _share(metric: str, whole: str) -> Callable[[Facts], float | None]:
    """Of all steps together."""

    def share(facts: Facts) -> float | None:
        of_all = total(facts, whole)
        return total(facts, metric) / of_all if of_all and _values(facts, of(metric)) else None

    return share


def _clipped(facts: Facts) -> float | None:
    """Share of updates whose gradient was longer than allowed."""
    limit, norms = finite(facts.settings.get("update.grad_norm")), _norms(facts)
    return None if limit is None or not norms else sum(n > limit for n in norms) / len(norms)


def _spike(facts: Facts) -> float | None:
    norms = _norms(facts)
    middle = median(norms) if norms else 0.0
    return max(norms) / middle if middle > 0 else None


def _norms(facts: Facts) -> list[float]:
    return _values(facts, of("update/grad_norm"))


def _lost_updates(facts: Facts) -> float | None:
    """Steps that kept something and made no update of it."""
    if not facts.rows:
        return None
    return float(
        sum(
            bool(row.get("select/kept")) and row.get("update/grad_norm") is None
            for row in facts.rows
        )
    )


def _flat(facts: Facts) -> float | None:
    """Share of groups without contrast in the last steps."""
    tasks = finite(facts.settings.get("train.tasks_per_step"))
    flat = mean(facts, of("select/flat"), last=RECENT)
    return None if tasks is None or flat is None or not tasks else flat / tasks


def _entropy_left(facts: Facts) -> float | None:
    """Mean entropy of the last steps."""
    return mean(facts, of("update/entropy"), last=RECENT)


def _memory(facts: Facts) -> float | None:
    """Largest share of what was foreseen that was used."""
    names = ("update/peak_bytes", "plan/predicted_bytes")
    pairs = [tuple(finite(row.get(name)) for name in names) for row in facts.rows]
    return max((used / plan for used, plan in pairs if used and plan), default=None)


def _stale(facts: Facts) -> float | None:
    """How far the oldest trajectory was behind, less what is allowed."""
    allowed = finite(facts.settings.get("train.max_staleness"))
    worst = _largest("stale/max")(facts)
    return None if not allowed or worst is None else worst - allowed


def _excess(value: float | None) -> str:
    if value is None:
        return number(None)
    return "within it" if value <= 0 else f"{value:.0f} too many"


def _times(value: float | None) -> str:
    return number(value, 1) + (" times" if value is not None else "")


RULES = (
    Rule(
        "Drift between engine and learner (k3)",
        _largest("mismatch/k3"),
        lambda v: number(v, 4),
        0.02,
        "Largest of any step, nats a token. About 0 where one program plays and learns; up to 0.01 "
        "where the engine computes in 16 bits, or steps are played ahead.",
        "Far more means that the engine has other weights or samples otherwise than it says. Look "
        "at the dtype of the engine and at hand-overs before anything else.",
    ),
    Rule(
        "Ratios cut to the cap",
        _mean("mismatch/capped"),
        percent,
        0.02,
        "Share of trained tokens, mean over steps. 0 without staleness; below 1% with it.",
        "Engine and learner disagree about many tokens. Lower --max-staleness.",
    ),
    Rule(
        "Rows masked for drift",
        _sum("mismatch/masked"),
        count,
        0,
        "0: a row that is masked was played, chosen, and teaches nothing.",
        "Mend the drift rather than raise --update.mismatch_limit.",
    ),
    Rule(
        "Gradients clipped",
        _clipped,
        percent,
        0.9,
        "Share of updates whose gradient was longer than --update.grad_norm. Anything up to most: "
        "advantages are divided by their deviation, so gradients do not shrink by themselves.",
        "Nearly every update is cut, so --lr alone sets its length. Fine if it learns; raise "
        "--update.grad_norm if it does not.",
    ),
    Rule(
        "Largest gradient against the median",
        _spike,
        _times,
        30,
        "Up to about 10 times; few kept trajectories make it jump.",
        "One step is far out of line. Look at its trajectories; clipping has bounded the harm.",
    ),
    Rule(
        "Updates that were lost",
        _lost_updates,
        count,
        0,
        "0. A step that kept something should change the weights.",
        "The gradient was not finite. Lower --lr, or compute in float32.",
    ),
    Rule(
        "Tokens whose ratio was clipped",
        _mean("update/clip_fraction"),
        percent,
        0.2,
        "Share of trained tokens, mean over steps. 0 where each batch is used once and nothing is "
        "stale; a few percent with staleness.",
        "The policy has moved far since it played. Lower --max-staleness or --lr.",
    ),
    Rule(
        "Entropy at the end",
        _entropy_left,
        number,
        math.inf,
        "Mean of the last ten updates, nats a token. It falls as the policy becomes sure. Where it "
        "reaches 0 all attempts are alike and nothing more can be learned from them.",
        "The policy hardly varies any more. If accuracy is still low, begin again with a lower "
        "--lr, or raise --rollout.temperature.",
        least=0.005,
    ),
    Rule(
        "Groups without contrast at the end",
        _flat,
        percent,
        0.8,
        "Share of the last ten steps. Up to half is common; it rises as tasks are mastered.",
        "Most play teaches nothing. Harder tasks, --train.curriculum, --skip-flat or --pilot help.",
    ),
    Rule(
        "Groups that the budget left empty",
        _sum("select/starved"),
        count,
        math.inf,
        "Groups with contrast of which nothing was kept. 0 without a token budget; with one, tasks "
        "whose contrast is dear.",
        "",
    ),
    Rule(
        "Distance from the best choice",
        _largest("select/gap"),
        percent,
        0.05,
        "Largest share of spread that selection may have missed. 0 where exact, else under 1%. "
        "Rules other than max_variance miss more, on purpose.",
        "With --rule max_variance this is rare: please report the step's groups.",
    ),
    Rule(
        "Length of kept rows against equal rewards",
        _mean("select/length_ratio"),
        lambda v: number(v, 2),
        1.3,
        "0.9 to 1.1 where a lot decides among equal rewards. Below 1 short ones are preferred; "
        "--within ht undoes that by weights.",
        "Short or long trajectories are favoured. Use --within random or ht.",
        least=SHORT,
    ),
    Rule(
        "Length of episodes that count against all begun",
        _mean("rollout/length_bias"),
        lambda v: number(v, 2),
        1.1,
        "1 without --rollout.oversample. With it, long episodes are given up, so it lies below.",
        "Long episodes are lost. Lower --rollout.oversample.",
        least=0.9,
    ),
    Rule(
        "Episodes that a limit ended",
        _share("env/truncated", "select/of"),
        percent,
        0.1,
        "Below 5%. Some at the beginning are no harm.",
        "Raise the limit that the stops below name, or mask them: --select.truncated mask.",
    ),
    Rule(
        "Calls that failed, at the end",
        _mean("env/tool_failures", RECENT),
        percent,
        0.25,
        "Share of the last ten steps. It falls as the policy learns to call; below 10% at the end.",
        "Look at failed calls in the transcripts: schemas or descriptions may mislead the policy.",
    ),
    Rule(
        "Episodes that infrastructure broke",
        _share("env/infra_errors", "select/of"),
        percent,
        0.01,
        "0. They are left out, never scored 0.",
        "The logs of the run name what broke.",
    ),
    Rule(
        "Oldest trajectory against --max-staleness",
        _stale,
        _excess,
        0,
        "Within it: older ones are refused before selection.",
        "This should not happen: please report it.",
    ),
    Rule(
        "Trajectories refused as stale",
        _sum("stale/dropped"),
        count,
        0,
        "0: they were played in vain.",
        "Lower --max-staleness, or play and learn at a more even pace.",
    ),
    Rule(
        "Trajectories longer than a micro-batch",
        _sum("plan/oversize"),
        count,
        0,
        "0. They are left out before anything is compared.",
        "Raise --memory or --update.tokens_per_micro_batch, or lower --rollout.max_context.",
    ),
    Rule(
        "Memory used of what was foreseen",
        _memory,
        percent,
        1.05,
        "60% to 100%, the largest of any step; unknown where a CPU's peak was an earlier one.",
        "More was used than foreseen. Lower --memory by as much, and please report the model.",
    ),
    Rule(
        "Updates done again for lack of memory",
        _sum("update/oom_retries"),
        count,
        0,
        "0. They cost time, not exactness.",
        "Something else shares the memory, or the forecast is too low. Lower --memory.",
    ),
    Rule(
        "Servers lost",
        _sum("engine/servers_lost"),
        count,
        0,
        "0. Where one is lost, its episodes go on at others.",
        "The servers' own logs say why they stopped.",
    ),
)
