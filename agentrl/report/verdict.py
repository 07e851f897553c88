"""Facts → Verdict: did it get better, and how surely; is one run better than another.

In    Facts with scores by task, before and after
Out   sentences with a paired difference and its 95% interval where tasks can be paired
Not   a winner among steps: the last measurement counts, not the best one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentrl import header
from agentrl.comparison import Comparison, paired
from agentrl.errors import UsageError
from agentrl.interval import Interval
from agentrl.report.episodes import Played
from agentrl.report.facts import Facts, Kind
from agentrl.report.lines import number as finite
from agentrl.report.lines import table
from agentrl.report.words import duration, interval, listed, number, several, signed

Tone = Literal["better", "worse", "open"]
STATUS = {
    "running": "It is still running",
    "failed": "It failed",
    "killed": "Its process is gone and nothing says why",
    "stopped": "It was stopped",
    "not finished": "It is not finished",
}
"""What is said of a run that did not come to its end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer."""

    tone: Tone
    text: str
    notes: tuple[str, ...] = ()
    """What has to be known with it."""


def verdict(facts: Facts) -> Verdict:
    """Whether a run got better, or how good an evaluation found its policy."""
    return VERDICTS[facts.kind](facts)


def against(first: Facts, other: Facts, names: tuple[str, str]) -> Verdict | None:
    """Whether another run ended better than the first; None where neither was measured."""
    one, two = _last(first), _last(other)
    if one is None or two is None:
        return None
    unlike = _unlike(first, other)
    found = _pair(one, two, names, unlike)
    if found is None or found.difference is None:
        return Verdict("open", f"{names[1]} and {names[0]} have no held-out task in common.")
    tone = _tone(found.difference)
    said = {
        "better": f"{names[1]} ended better than {names[0]}",
        "worse": f"{names[1]} ended worse than {names[0]}",
        "open": f"{several(found.tasks, 'task')} cannot tell {names[1]} from {names[0]}",
    }[tone]
    notes = [f"They differ in more than the policy: {listed(unlike)}."] if unlike else []
    if found.unpaired:
        notes.append(f"{several(found.unpaired, 'task')} of one of them only, left out.")
    return Verdict(tone, f"{said}: {_difference(found)}.", tuple(notes))


def _of_training(facts: Facts) -> Verdict:
    notes = _ending(facts)
    first, last = _first(facts), _last(facts)
    if last is None or first is None:
        return _unmeasured(facts, first or last, notes)
    if last.step != facts.done:
        notes.append(f"Held-out tasks were last attempted at step {last.step}.")
    found = _pair(first, last, ("before", "after"), [])
    if found is None or found.difference is None:
        return Verdict(
            "open", "Held-out accuracy cannot be compared: no task was scored twice.", tuple(notes)
        )
    if found.unpaired:
        notes.append(f"{several(found.unpaired, 'task')} could not be scored both times.")
    before, after = found.accuracy
    tone = _tone(found.difference)
    said = {
        "better": "Held-out accuracy rose",
        "worse": "Held-out accuracy fell",
        "open": f"{several(found.tasks, 'task')} show no sure change of held-out accuracy",
    }[tone]
    return Verdict(
        tone,
        f"{said}: {interval(before)} before, {interval(after)} after {_spent(facts)}. "
        f"{_difference(found).capitalize()}.",
        tuple(notes),
    )


def _unmeasured(facts: Facts, only: Played | None, notes: list[str]) -> Verdict:
    """Where no two measurements can be paired by task."""
    known = [v for row in facts.rows if (v := finite(row.get("heldout"))) is not None]
    if only is not None:
        text = f"Held-out accuracy was measured once: {interval(only.accuracy)}, "
        return Verdict("open", f"{text}at step {only.step}.", tuple(notes))
    if known:
        text = f"Held-out accuracy was {number(known[0])} first and {number(known[-1])} last"
        notes.append("The recorded held-out episodes are missing, so no interval can be given.")
        return Verdict("open", f"{text}, after {_spent(facts)}.", tuple(notes))
    rewards = [v for row in facts.rows if (v := finite(row.get("reward"))) is not None]
    if not rewards:
        return Verdict("open", "Nothing was measured: there is no whole step.", tuple(notes))
    return Verdict(
        "open",
        f"Held-out accuracy was not measured. The mean reward of training tasks was "
        f"{number(rewards[0])} in the first step and {number(rewards[-1])} in the last of "
        f"{several(facts.done, 'step')}.",
        tuple(notes),
    )


def _of_sft(facts: Facts) -> Verdict:
    notes, loss = _ending(facts), table(facts.run.get("loss"))
    before, after = (finite(loss.get(when)) for when in ("before", "after"))
    if before is None or after is None:
        return Verdict("open", "No trajectory was held out, so nothing says whether.", tuple(notes))
    word = "fell" if after < before else "rose" if after > before else "stayed"
    notes.append("Loss is no accuracy: measure the policy with agentrl eval --run.")
    tone: Tone = "better" if after < before else "worse" if after > before else "open"
    return Verdict(
        tone,
        f"Held-out loss {word} from {number(before)} to {number(after)} nats a token "
        f"in {several(facts.done, 'update')}.",
        tuple(notes),
    )


def _of_evaluation(facts: Facts) -> Verdict:
    notes = _ending(facts)
    if not facts.heldout:
        return Verdict("open", "No episode is recorded yet.", tuple(notes))
    played, asked = facts.heldout[-1], facts.run.get("tasks")
    if isinstance(asked, int) and len(played.scores) < asked:
        notes.append(f"{len(played.scores)} of {several(asked, 'task')} have episodes so far.")
    errors = played.stops.get("env_error", 0)
    if errors:
        notes.append(f"{several(errors, 'episode')} broke and could not be scored.")
    return Verdict(
        "open",
        f"Accuracy {interval(played.accuracy)} on {several(len(played.scores), 'task')}, "
        f"{several(played.episodes, 'episode')}.",
        tuple(notes),
    )


VERDICTS: Mapping[Kind, Callable[[Facts], Verdict]] = {
    "train": _of_training,
    "sft": _of_sft,
    "evaluation": _of_evaluation,
}


def _ending(facts: Facts) -> list[str]:
    if facts.status == "done":
        return []
    said = STATUS.get(facts.status, f"Its status is {facts.status}")
    if facts.kind == "evaluation":
        return [f"{said}."]
    of = f" of {facts.asked}" if facts.asked else ""
    return [f"{said}, after {facts.done}{of} steps. What follows is of those."]


def _first(facts: Facts) -> Played | None:
    found = facts.heldout[0] if facts.heldout else None
    return found if found is not None and found.step == 0 else None


def _last(facts: Facts) -> Played | None:
    found = facts.heldout[-1] if facts.heldout else None
    return found if found is not None and found.step != 0 else None


def _pair(one: Played, two: Played, names: tuple[str, str], unlike: list[str]) -> Comparison | None:
    try:
        return paired(*names, one.scores, two.scores, tuple(unlike))
    except UsageError:
        return None


def _tone(difference: Interval) -> Tone:
    return "better" if difference.low > 0 else "worse" if difference.high < 0 else "open"


def _difference(found: Comparison) -> str:
    assert found.difference is not None
    change = found.difference
    return (
        f"a difference of {signed(change.mean)}, 95% interval {signed(change.low)} to "
        f"{signed(change.high)}, paired over {several(found.tasks, 'task')} "
        f"({found.better} better, {found.worse} worse)"
    )


def _spent(facts: Facts) -> str:
    total = finite(table(facts.run.get("seconds")).get("total"))
    return several(facts.done, "step") + (f" and {duration(total)}" if total else "")


def _unlike(first: Facts, other: Facts) -> list[str]:
    """What makes a difference of two ends no difference of their training alone."""
    one, two = _header(first), _header(other)
    return header.unlike(one, two, ("env", "options", "k", "split", "limits", "sampling", "model"))


def _header(facts: Facts) -> dict[str, Any]:
    """How held-out tasks were attempted, in an evaluation's words."""
    if facts.kind == "evaluation":
        kept = ("env", "options", "k", "split", "limits", "sampling")
        return {name: facts.run[name] for name in kept if name in facts.run}
    known = facts.settings
    limits = {n: known[f"rollout.{n}"] for n in header.LIMITS if f"rollout.{n}" in known}
    found = {
        "env": facts.run.get("env"),
        "options": {
            name.removeprefix("env.options."): value
            for name, value in known.items()
            if name.startswith("env.options.")
        },
        "split": "test",
        "model": facts.run.get("model"),
    }
    if "heldout.k" in known:
        found["k"] = known["heldout.k"]
    if "rollout.temperature" in known:
        found["sampling"] = {"temperature": known["rollout.temperature"]}
    return found | ({"limits": limits} if limits else {})
