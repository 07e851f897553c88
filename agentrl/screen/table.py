"""Screen → rows of numbers with their trends.

In    a Screen
Out   Row: a name, now, mean of the last ten, best, and a trend of any width
Not   a judgement: `best` is only said of what should be high
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentrl.amounts import number, plural
from agentrl.events import Evaluated, Measured
from agentrl.screen.state import Point, Screen
from agentrl.screen.trend import trend

HEADS = ("now", "mean of 10", "best")
RECENT = 10


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    name: str
    cells: tuple[str, str, str]
    values: Sequence[float | None]

    def trend(self, width: int) -> str:
        """All its values, in so many characters."""
        return trend(self.values, width)


def rows(screen: Screen) -> list[Row]:
    """The lines of a training run."""
    points = screen.points
    return [
        _row("reward, all n", [p.reward for p in points], points, best=True),
        _heldout(screen.measured),
        _row("spread, all n", [p.spread_all for p in points], points),
        _row("spread, kept m", [p.spread_kept for p in points], points),
        _shares("cut off by a limit", [p.cut_off for p in points]),
        _row("policy drift (KL)", [p.drift for p in points], points, small),
    ]


def evaluation(one: Evaluated) -> list[str]:
    """What came of an environment of a suite."""
    found = one.accuracy
    told = (
        "nothing could be scored" if found is None else f"accuracy {_with_error(found.mean, one)}"
    )
    broken = [f"{one.errors} not scored"] if one.errors else []
    return [one.env, told, plural(one.episodes, "episode"), *broken]


def _with_error(mean: float, one: Evaluated | Measured) -> str:
    """A mean, and half its interval's width where there is one."""
    found = one.accuracy
    half = 0.0 if found is None else (found.high - found.low) / 2
    return f"{mean:.2f} ±{half:.2f}" if half else f"{mean:.2f}"


def _row(
    name: str,
    values: Sequence[float | None],
    points: Sequence[Point],
    say: Callable[[float | None], str] = number,
    *,
    best: bool = False,
) -> Row:
    known = [(v, p.step) for v, p in zip(values, points, strict=True) if v is not None]
    top = max(known, default=None, key=lambda pair: pair[0])
    last = values[-1] if values else None
    recent = _mean(values[-RECENT:])
    shown = f"{say(top[0])} @{top[1]}" if best and top else ""
    return Row(name, (say(last), say(recent), shown), values)


def small(value: float | None) -> str:
    """A number that may be far below one."""
    if value is None or abs(value) >= 0.0005:
        return number(value, 4)
    return f"{value:.0e}" if abs(value) >= 1e-6 else "0"


def _shares(name: str, values: Sequence[float | None]) -> Row:
    last, recent = values[-1] if values else None, _mean(values[-RECENT:])
    return Row(name, (_percent(last), _percent(recent), ""), values)


def _heldout(measured: Sequence[Measured]) -> Row:
    found = [(m, m.accuracy.mean) for m in measured if m.accuracy is not None]
    if not found:
        return Row("held-out accuracy", ("-", "", ""), [])
    best, mean = max(found, key=lambda pair: pair[1])
    now = _with_error(found[-1][1], found[-1][0])
    return Row("held-out accuracy", (now, "", f"{mean:.2f} @{best.step}"), [v for _, v in found])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
