"""What was measured: figures of evaluations, accuracy by kind of task.

In    Facts of one or more runs and evaluations
Out   Tables
Not   a verdict (verdict.py), nor figures of training (curves.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentrl.measure import Measurement, summary_of
from agentrl.report.document import Block, Table
from agentrl.report.drawing import Named
from agentrl.report.facts import Facts
from agentrl.report.lines import number as finite
from agentrl.report.lines import table
from agentrl.report.words import NONE, amount, count, number


def measured(runs: Named) -> Iterator[Block]:
    """What evaluations found, and the last held-out figures by what tasks say of themselves."""
    evaluations = [
        (name, summary_of(_attempts(facts), int(finite(facts.run.get("k")) or 1)))
        for name, facts in runs
        if facts.kind == "evaluation" and facts.heldout
    ]
    if evaluations:
        rows = [(what, *(show(m) for _, m in evaluations)) for what, show in MEASURED]
        yield Table("", ("", *(name for name, _ in evaluations)), tuple(rows))
    for name, found in evaluations:
        by = [
            (f"{kind} {word}", number(told["mean"]), _span(told), count(told["tasks"]))
            for kind, words in found.by.items()
            for word, told in words.items()
        ]
        if by:
            yield Table(f"{name}: accuracy by kind of task.", BY, tuple(by))
    yield from _by_kind(runs)


BY = ("tasks", "accuracy", "95% interval", "number")
MEASURED: tuple[tuple[str, Callable[[Measurement], str]], ...] = (
    ("accuracy", lambda m: number(m.accuracy.mean if m.accuracy else None)),
    ("95% interval", lambda m: _span(m.accuracy.as_json()) if m.accuracy else NONE),
    ("reward", lambda m: number(m.reward.mean if m.reward else None)),
    ("tasks", lambda m: count(m.tasks)),
    ("attempts", lambda m: f"{count(m.episodes)}, {m.errors} not scored"),
    ("pass at k", lambda m: ", ".join(f"{k}: {number(v)}" for k, v in m.pass_at.items())),
    ("pass all k", lambda m: ", ".join(f"{k}: {number(v)}" for k, v in m.pass_all.items())),
    ("truncated", lambda m: count(m.truncated)),
    ("turns an attempt", lambda m: number(m.turns, 2)),
    ("calls an attempt", lambda m: number(m.tool_calls, 2)),
    ("failed calls", lambda m: count(m.invalid_calls)),
    ("tokens sampled", lambda m: amount(m.tokens)),
    ("stops", lambda m: ", ".join(f"{stop} {n}" for stop, n in m.stops.items())),
)


def _attempts(facts: Facts) -> list[Any]:
    tasks: dict[str, list[Any]] = {}
    for attempt in facts.heldout[-1].attempts:
        tasks.setdefault(attempt.task, []).append(attempt)
    return list(tasks.values())


def _by_kind(runs: Named) -> Iterator[Table]:
    """Of training runs, from run.json: before and after; of several only after."""
    known = [(name, _kinds(facts)) for name, facts in runs if facts.kind == "train"]
    words = list(dict.fromkeys(word for _, (_, after) in known for word in after))
    if not words:
        return
    caption = "Held-out accuracy by kind of task"
    if len(known) == 1:
        ((_, (before, after)),) = known
        pairs = ((w, before.get(w), after.get(w)) for w in words)
        yield Table(
            f"{caption}.",
            ("held-out tasks", "before", "95% interval", "after", "95% interval"),
            tuple((w, *_mean_and_span(one), *_mean_and_span(two)) for w, one, two in pairs),
        )
        return
    rows = [
        (w, *(cell for _, (_, after) in known for cell in _mean_and_span(after.get(w))))
        for w in words
    ]
    head = ("held-out tasks", *(part for name, _ in known for part in (name, "95% interval")))
    yield Table(f"{caption}, at the end.", head, tuple(rows))


def _kinds(facts: Facts) -> tuple[dict[str, Any], dict[str, Any]]:
    """Kind of task to what was measured, before and after."""
    known = table(facts.run.get("heldout"))
    before, after = (table(table(known.get(when)).get("by")) for when in ("before", "after"))
    return _joined(before), _joined(after)


def _joined(by: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{kind} {word}": told for kind in by for word, told in table(by[kind]).items()}


def _mean_and_span(told: object) -> tuple[str, str]:
    return number(finite(table(told).get("mean"))), _span(table(told))


def _span(told: Mapping[str, Any]) -> str:
    low, high = finite(told.get("low")), finite(told.get("high"))
    return NONE if low is None or high is None else f"{number(low)} to {number(high)}"
