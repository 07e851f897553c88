"""Facts → Document: the sections of a report, in the order that questions come in.

In    Facts of one or more folders
Out   Document; a section that would be empty is left out
Not   looks
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from agentrl.report import choice, conduct, costs, curves
from agentrl.report.document import (
    Answer,
    Block,
    Checks,
    Command,
    Document,
    Section,
    Table,
    Transcripts,
    Words,
)
from agentrl.report.drawing import Named
from agentrl.report.facts import Facts, labelled
from agentrl.report.health import findings
from agentrl.report.lines import number as finite
from agentrl.report.lines import table
from agentrl.report.measured import measured
from agentrl.report.settings import Clean
from agentrl.report.settings import table as settings_table
from agentrl.report.tools import OUTCOMES, UNKNOWN
from agentrl.report.verdict import against, verdict
from agentrl.report.words import NONE, amount, count, duration, listed, percent
from agentrl.version import __version__

TITLES = {"best": "Best", "worst": "Worst", "changed": "Changed most"}
TOOLS = 20
"""Tools that are told apart; a policy may call thousands of names that no tool has."""


def document(every: Sequence[Facts], clean: Clean) -> Document:
    """The report of some folders.

    Args:
        every: What they say, the first one being what others are compared with.
        clean: Takes secrets out of a text.
    """
    names = labelled(every)
    runs = tuple(zip(names, every, strict=True))
    found = [Answer(name, _about(facts), verdict(facts)) for name, facts in runs]
    for name, facts in runs[1:]:
        told = against(every[0], facts, (names[0], name))
        if told is not None:
            found.append(Answer(f"{name} against {names[0]}", "", told))
    several = len(every) > 1
    notes = [f"{name}: {text}" if several else text for name, f in runs for text in f.missing]
    return Document(
        title=f"Report: {listed(names)}",
        answers=tuple(found),
        notes=tuple(notes),
        sections=tuple(_sections(runs, clean)),
        made=f"agentrl {__version__}",
    )


def _sections(runs: Named, clean: Clean) -> Iterator[Section]:
    for name, title, blocks in (
        ("curves", "Did it learn?", [curves.heldout(runs), curves.reward(runs), *_loss(runs)]),
        ("measured", "What was measured", list(measured(runs))),
        ("selection", "Selection", [choice.selection(_trained(runs)), choice.ranks(runs)]),
        ("costs", "Time and memory", [costs.seconds(_trained(runs)), costs.memory(runs)]),
        ("tools", "Tools", [conduct.tools(_trained(runs)), _calls(runs)]),
        ("stops", "Stops", [conduct.stops(runs)]),
        ("health", "Health", list(_health(runs))),
        ("transcripts", "Transcripts", list(_transcripts(runs))),
        ("runs", _what(runs), [_overview(runs)]),
        ("settings", "Settings", list(_settings(runs, clean))),
        ("again", "The same again", list(_again(runs, clean))),
    ):
        filled = tuple(block for block in blocks if block is not None)
        if filled:
            yield Section(name, title, filled)


def _what(runs: Named) -> str:
    evaluations = all(facts.kind == "evaluation" for _, facts in runs)
    word = "evaluation" if evaluations else "run"
    return f"The {word}" if len(runs) == 1 else f"{word}s".capitalize()


def _about(facts: Facts) -> str:
    """What it was, in a line."""
    run, model = facts.run, _model(facts.run.get("model"))
    engine = run.get("engine")
    parts = [str(run.get("env") or ""), f"{model} on {engine}" if engine else model]
    if "n" in run and "m" in run:
        parts.append(f"{run['m']} kept of {run['n']} by {facts.settings.get('select.rule', NONE)}")
    if facts.kind == "sft":
        parts.append(KINDS["sft"])
    return " · ".join(part for part in parts if part)


def _trained(runs: Named) -> Named:
    """All of them, if any has steps of training; colours stay those of the whole report."""
    return runs if any(facts.kind == "train" and facts.rows for _, facts in runs) else ()


def _loss(runs: Named) -> list[Any]:
    return [curves.losses(runs)] if any(facts.kind == "sft" for _, facts in runs) else []


KINDS = {"train": "training", "sft": "learning from trajectories", "evaluation": "evaluation"}
OVERVIEW: tuple[tuple[str, Callable[[Facts], str]], ...] = (
    ("kind", lambda f: KINDS[f.kind]),
    ("status", lambda f: f.status),
    ("environment", lambda f: str(f.run.get("env") or NONE)),
    ("model", lambda f: _model(f.run.get("model"))),
    ("engine", lambda f: str(f.run.get("engine") or NONE)),
    ("n → m", lambda f: f"{f.run['n']} → {f.run['m']}" if "n" in f.run and "m" in f.run else NONE),
    ("rule", lambda f: str(f.settings.get("select.rule", NONE)) if f.kind == "train" else NONE),
    ("steps", lambda f: f"{f.done} of {f.asked}" if f.asked else count(f.done) if f.rows else NONE),
    ("time", lambda f: _time(f)),
    ("tokens sampled", lambda f: amount(_tokens(f, "sampled"))),
    ("tokens trained", lambda f: amount(_tokens(f, "trained"))),
    ("seed", lambda f: str(f.run.get("seed", NONE))),
    ("started", lambda f: _started(f)),
    ("agentrl", lambda f: _version(f, "version", "agentrl")),
    ("python", lambda f: _version(f, "python", "python")),
)


def _overview(runs: Named) -> Table:
    rows = [(what, *(show(facts) for _, facts in runs)) for what, show in OVERVIEW]
    known = tuple(row for row in rows if set(row[1:]) != {NONE})
    return Table("", ("", *(name for name, _ in runs)), known)


def _calls(runs: Named) -> Table | None:
    """Calls by tool and outcome."""
    rows = []
    kinds = [kind for kind in OUTCOMES if any(o == kind for _, f in runs for _, o in f.calls)]
    unknown = any(o == UNKNOWN for _, f in runs for _, o in f.calls)
    for name, facts in runs:
        calls = facts.calls
        totals = Counter[str]()
        for (tool, _), times in calls.items():
            totals[tool] += times
        for tool, times in sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:TOOLS]:
            first = f"{name}: {tool}" if len(runs) > 1 else tool
            shares = (
                percent(calls[tool, kind] / times) if calls[tool, kind] else NONE for kind in kinds
            )
            not_said = (percent(calls[tool, UNKNOWN] / times),) if unknown else ()
            rows.append((first, count(times), *shares, *not_said))
        if len(totals) > TOOLS:
            rows.append((f"{len(totals) - TOOLS} others", *(NONE for _ in kinds), NONE))
    if not rows:
        return None
    head = ("tool", "calls", *(OUTCOMES[kind] for kind in kinds), *(("not recorded",) * unknown))
    width = len(head)
    return Table(
        "Calls by what became of them.", head, tuple((*r, *[NONE] * width)[:width] for r in rows)
    )


def _health(runs: Named) -> Iterator[Block]:
    found = findings([facts for _, facts in runs])
    if found:
        looks = sum("look" in one.states for one in found)
        yield Words(
            "Every figure is as it should be."
            if not looks
            else f"{looks} of {len(found)} figures are worth a look."
        )
        ordered = sorted(found, key=lambda one: "look" not in one.states)
        yield Checks(tuple(name for name, _ in runs), tuple(ordered))


def _transcripts(runs: Named) -> Iterator[Block]:
    for name, facts in runs:
        for why, title in TITLES.items():
            told = tuple(one for one in facts.told if one.why == why)
            if told:
                yield Transcripts(f"{title}: {name}" if len(runs) > 1 else title, told)


def _settings(runs: Named, clean: Clean) -> Iterator[Block]:
    known = tuple((name, facts) for name, facts in runs if facts.settings)
    if not known:
        return
    if len(known) == 1 and not known[0][1].origin:
        return  # nobody knows which of them were given
    found = settings_table([facts for _, facts in known], [name for name, _ in known], clean)
    if found.rows:
        yield found
    else:
        yield Words("All settings are alike." if len(known) > 1 else "All settings are defaults.")


def _again(runs: Named, clean: Clean) -> Iterator[Block]:
    for name, facts in runs:
        words = _launch(facts, "command")
        joined = " ".join(map(str, words)) if isinstance(words, list) else ""
        command = facts.run.get("command") or joined
        if command:
            yield Words(f"{name} was started with:" if len(runs) > 1 else "It was started with:")
            yield Command(clean(str(command)))
        if facts.kind == "train" and facts.settings:
            yield Words("All of its settings again, in a folder of its own:")
            yield Command(f"agentrl train --config {facts.path / 'config.toml'}")


def _model(said: Any) -> str:
    return str(said.get("name") if isinstance(said, dict) else said or NONE)


def _tokens(facts: Facts, kind: str) -> float | None:
    return finite(table(facts.run.get("tokens")).get(kind)) if facts.kind == "train" else None


def _time(facts: Facts) -> str:
    total = finite(table(facts.run.get("seconds")).get("total"))
    return duration(total) if total else NONE


def _version(facts: Facts, name: str, package: str) -> str:
    """Of a run by its own name, of an evaluation among those of its start."""
    return str(facts.run.get(name) or table(_launch(facts, "versions")).get(package) or NONE)


def _launch(facts: Facts, name: str) -> Any:
    """What the first start of an evaluation says of itself."""
    launches = facts.run.get("launches")
    first = launches[0] if isinstance(launches, list) and launches else None
    return table(first).get(name)


def _started(facts: Facts) -> str:
    said = str(facts.run.get("started") or _launch(facts, "started") or NONE)
    try:
        return datetime.fromisoformat(said).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return said
