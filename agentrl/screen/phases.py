"""Screen → facts: what is said of each phase, the most telling first.

In    a Screen, the time
Out   a Phase for each bar; facts of the last step, of memory, of what was said; what keys do
Not   where facts stand, nor how many of them have room (frame.py)
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrl.amounts import brief, large, number, plural
from agentrl.events import Started
from agentrl.interrupt import AGAIN, ONCE
from agentrl.memory.size import in_words
from agentrl.screen.state import Screen, Tally

EVALUATION = "Ctrl-C stops; --resume goes on"
NOT_KEPT = "Ctrl-C stops; without --out nothing is kept"
PARTS = ("rollout", "select", "update", "sync")


@dataclass(frozen=True, slots=True)
class Phase:
    """How much of it is done, and what is said of it."""

    share: float
    facts: list[str]


def rollout(screen: Screen, now: float) -> Phase:
    """Episodes of the step; of a later one where play is ahead."""
    tally = screen.rollout
    if not tally.of:
        return Phase(0.0, ["begins" if "rollout" in screen.going else "waiting"])
    facts = [f"{tally.done}/{tally.of}"]
    if tally.ended is not None and not screen.over:
        facts.append(brief(tally.seconds(now)))
    if tally.step > screen.step:
        facts.append(f"step {tally.step}, ahead")
    return Phase(tally.done / tally.of, facts + _play(tally, now))


def select(screen: Screen, now: float) -> Phase:
    """The choice of this step, or of the last one."""
    found = screen.picked
    if found is None:
        return Phase(0.0, ["waiting"])
    kept = f"kept {found.kept} of {found.of}"
    spread = f"spread {number(found.spread_all)} → {number(found.spread_kept)}"
    if found.step < screen.step:
        return Phase(0.0, ["waiting", f"last {kept}", spread])
    groups = f"{found.groups}/{found.groups} groups"
    return Phase(1.0, [groups, kept, spread, f"{found.flat} flat"])


def update(screen: Screen, now: float) -> Phase:
    """Micro-batches of the update, or what the last one was."""
    found, learned = screen.picked, screen.learned
    if "update" in screen.going:
        share = learned.done / learned.of if learned else 0.0
        batches = f"{learned.done}/{learned.of} micro-batches" if learned else "begins"
        tokens = [f"{large(found.tokens)} tokens"] if found else []
        return Phase(share, [batches, *tokens])
    done = found is not None and found.step == screen.step and learned is not None
    if done and not screen.over:
        facts = ["weights go to the engine"] if "sync" in screen.going else ["done"]
        return Phase(1.0, facts)
    if screen.last is None:
        return Phase(0.0, ["waiting"])
    return Phase(
        float(screen.over and done), ["done" if screen.over else "waiting", *_last(screen)]
    )


def heldout(screen: Screen, now: float) -> Phase:
    """Attempts at tasks that are not trained on."""
    tally = screen.heldout
    if not tally.of:
        return Phase(0.0, ["begins"])
    facts = [f"{tally.done}/{tally.of}"]
    if tally.scored:
        facts.append(f"accuracy so far {tally.right / tally.scored:.2f}")
    broken = tally.counted - tally.scored
    facts += [f"{broken} not scored"] if broken else []
    return Phase(tally.done / tally.of, facts + _play(tally, now))


def left(screen: Screen, now: float) -> float | None:
    """Seconds to go, judged by what is done; None where nothing tells."""
    if screen.is_training:
        last = screen.last
        return None if last is None else max(0.0, last.left - (now - screen.last_at))
    tally = screen.heldout
    if not tally.counted:
        return None
    return tally.seconds(now) / tally.counted * (tally.of - tally.done)


def last_step(screen: Screen) -> list[str]:
    """Where its time went."""
    if screen.last is None:
        return ["-"]
    row = screen.last.row
    whole = max(1e-9, row.get("time/step") or 0.0)
    parts = [(part, row.get(f"time/{part}") or 0.0) for part in PARTS]
    return [brief(whole), *(f"{part} {seconds / whole:.0%}" for part, seconds in parts)]


def memory(screen: Screen) -> list[str]:
    """The peak of the last update: foreseen, measured, allowed."""
    row = screen.last.row if screen.last else {}
    foreseen, peak = row.get("plan/predicted_bytes"), row.get("update/peak_bytes")
    facts = [f"predicted {in_words(foreseen)}" if foreseen else "predicted -"]
    # On a CPU a peak that an earlier, higher one hides reads as 0.
    facts.append(f"used {in_words(peak)}" if peak else "used -" if peak is None else "no new peak")
    limit = screen.about.memory if isinstance(screen.about, Started) else None
    return [*facts, f"limit {in_words(limit)}"] if limit else facts


def said(screen: Screen) -> list[str]:
    """Warnings, and what went to the log."""
    facts = [plural(screen.warned, "warning")] if screen.warned else []
    if screen.aside:
        facts.append(f"{plural(screen.aside, 'line')} printed, kept in the log")
    return facts


def advice(screen: Screen) -> tuple[str, str]:
    """What Ctrl-C does now, and its style."""
    if screen.over:
        return "", ""
    if screen.stopping:
        return AGAIN, "warn"
    if screen.is_training:
        return ONCE, ""
    return (EVALUATION if getattr(screen.about, "path", None) else NOT_KEPT), ""


def _play(tally: Tally, now: float) -> list[str]:
    """How fast, and with how many turns and calls."""
    if not tally.counted:
        return []
    each = tally.counted
    facts = [f"{large(tally.tokens / tally.seconds(now))} tok/s", f"{tally.turns / each:.1f} turns"]
    calls = f"{tally.calls / each:.1f} tools"
    failed = f", {tally.failures / tally.calls:.0%} failed" if tally.calls else ""
    return [*facts, calls + failed]


def _last(screen: Screen) -> list[str]:
    """Of the last step's update."""
    assert screen.last is not None
    row = screen.last.row
    if not row.get("update/tokens"):
        return ["no group of the last step had contrast"]
    return [
        f"last {brief(row.get('time/update') or 0.0)}",
        f"{large(row['update/tokens'])} tokens",
        f"grad {number(row.get('update/grad_norm'))}",
    ]
