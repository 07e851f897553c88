"""Events → Screen: what is known of a run at a moment.

In    a Screen, an event, the time
Out   the Screen after it
Not   how it looks (frame.py), nor a clock: the time comes in with each event
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentrl.events import (
    Episode,
    Evaluated,
    Evaluating,
    Event,
    Learned,
    Measured,
    Part,
    Phased,
    Picked,
    Played,
    Started,
    Stepped,
    Stopping,
    Warned,
)

KNOWN = 10
"""Different warnings that are remembered, so that each is shown once."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The episodes of one phase so far."""

    step: int = 0
    done: int = 0
    of: int = 0
    """Episodes that there will be; groups that end early lower it."""
    began: float = 0.0
    ended: float | None = None
    """When the phase ended; None while it goes on."""
    counted: int = 0
    """Episodes of which the sums below are."""
    turns: int = 0
    calls: int = 0
    failures: int = 0
    tokens: int = 0
    scored: int = 0
    right: int = 0

    def plus(self, event: Played) -> Tally:
        """With one more episode."""
        now = replace(self, step=event.step, done=event.done, of=event.of)
        return now if event.episode is None else now._with(event.episode)

    def _with(self, one: Episode) -> Tally:
        return replace(
            self,
            counted=self.counted + 1,
            turns=self.turns + one.turns,
            calls=self.calls + one.tool_calls,
            failures=self.failures + one.tool_failures,
            tokens=self.tokens + one.tokens,
            scored=self.scored + (one.correct is not None),
            right=self.right + bool(one.correct),
        )

    def seconds(self, now: float) -> float:
        """How long it has gone on, or went on."""
        return max(1e-9, (now if self.ended is None else self.ended) - self.began)


@dataclass(frozen=True, slots=True)
class Point:
    """What the trends show of one step."""

    step: int
    reward: float | None
    spread_all: float | None
    spread_kept: float | None
    cut_off: float | None
    """Share of the episodes that a limit ended."""
    drift: float | None


@dataclass(frozen=True, slots=True)
class Screen:
    """All that the live view shows."""

    began: float
    about: Started | Evaluating | None = None
    going: Mapping[Part, float] = field(default_factory=dict)
    """What is going on, and since when."""
    rollout: Tally = Tally()
    heldout: Tally = Tally()
    picked: Picked | None = None
    learned: Learned | None = None
    """Micro-batches of the update that goes on, or of the last one."""
    points: tuple[Point, ...] = ()
    measured: tuple[Measured, ...] = ()
    evaluated: tuple[Evaluated, ...] = ()
    last: Stepped | None = None
    last_at: float = 0.0
    warned: int = 0
    warnings: tuple[str, ...] = ()
    """The different ones, without their numbers."""
    fresh: tuple[str, ...] = ()
    """Warnings that nobody has shown yet."""
    aside: int = 0
    """Lines that went to the log instead of the terminal."""
    stopping: bool = False
    over: bool = False

    @property
    def step(self) -> int:
        """The step that is under way, or was the last."""
        if not isinstance(self.about, Started):
            return 0
        done = self.last.row["step"] if self.last else self.about.first_step - 1
        return min(int(done) + (not self.over), self.about.steps)

    @property
    def is_training(self) -> bool:
        """Whether it is no evaluation."""
        return isinstance(self.about, Started)


def seen(screen: Screen, event: Event, now: float) -> Screen:
    """The screen after an event."""
    match event:
        case Started():
            past = tuple(point(row) for row in event.past)
            return replace(screen, about=event, points=past, measured=_past(event))
        case Evaluating():
            tally = Tally(done=event.known, of=event.tasks * event.k, began=now)
            return replace(screen, about=event, heldout=tally)
        case Phased():
            return _phased(screen, event, now)
        case Played():
            return _played(screen, event)
        case Picked():
            return replace(screen, picked=event, learned=None)
        case Learned():
            return replace(screen, learned=event)
        case _:
            return _told(screen, event, now)


def _told(screen: Screen, event: Event, now: float) -> Screen:
    """What comes once a step or seldom."""
    match event:
        case Measured():
            return replace(screen, measured=(*screen.measured, event))
        case Evaluated():
            return replace(screen, evaluated=(*screen.evaluated, event))
        case Stepped():
            points = (*screen.points, point(event.row))
            return replace(screen, points=points, last=event, last_at=now)
        case Warned():
            return _warned(screen, event.text)
        case Stopping():
            return replace(screen, stopping=True)
        case _:
            raise AssertionError(event)


def point(row: Mapping[str, Any]) -> Point:
    """What the trends show of a row of metrics."""
    cut, of = row.get("env/truncated"), row.get("select/of")
    return Point(
        step=int(row["step"]),
        reward=row.get("reward"),
        spread_all=row.get("select/spread_all"),
        spread_kept=row.get("select/spread_kept"),
        cut_off=cut / of if cut is not None and of else None,
        drift=row.get("mismatch/k3"),
    )


def _past(event: Started) -> tuple[Measured, ...]:
    """Held-out accuracies of the steps before; their intervals are not in the rows."""
    from agentrl.interval import Interval

    found = ((row["step"], row.get("heldout")) for row in event.past)
    return tuple(Measured(s, Interval(v, v, v), 0, 0.0) for s, v in found if v is not None)


def _phased(screen: Screen, event: Phased, now: float) -> Screen:
    going = {part: since for part, since in screen.going.items() if part != event.part}
    if event.going:
        going[event.part] = now
    screen = replace(screen, going=going)
    name = {"rollout": "rollout", "eval": "heldout"}.get(event.part)
    if name is None:
        return screen
    before: Tally = getattr(screen, name)
    after = Tally(began=now) if event.going else replace(before, ended=now)
    return replace(screen, rollout=after) if name == "rollout" else replace(screen, heldout=after)


def _played(screen: Screen, event: Played) -> Screen:
    if event.phase == "rollout":
        return replace(screen, rollout=screen.rollout.plus(event))
    return replace(screen, heldout=screen.heldout.plus(event))


def _warned(screen: Screen, text: str) -> Screen:
    """Counted always; shown where it says something new."""
    key = re.sub(r"\d[\d.,]*", "#", text)
    screen = replace(screen, warned=screen.warned + 1)
    if key in screen.warnings:
        return screen
    known = (*screen.warnings, key)[-KNOWN:]
    return replace(screen, warnings=known, fresh=(*screen.fresh, text))
