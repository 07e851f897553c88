"""Events of a run ↔ lines of JSON, so that a picture can be made again from what really happened.

In    events with the seconds at which they came
Out   a file of lines; the same events again
Not   a format that anything else relies on
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentrl import events
from agentrl.interval import Interval

Timed = tuple[float, events.Event]
DIGITS = 5


def write(path: Path, timed: Iterable[Timed]) -> None:
    """Write events, one a line."""
    lines = [json.dumps(_line(at, event)) for at, event in timed]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(path: Path) -> list[Timed]:
    """The events of a file."""
    return [_event(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _line(at: float, event: events.Event) -> dict[str, Any]:
    return {"at": round(at, 3), "event": type(event).__name__, **_plain(asdict(event))}


def _plain(value: Any) -> Any:
    """What JSON knows; numbers that are missing are left out."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return str(value) if isinstance(value, Path) else value


def _event(line: dict[str, Any]) -> Timed:
    at, kind = line.pop("at"), getattr(events, line.pop("event"))
    made: dict[str, Any] = {"path": Path, "accuracy": _interval, "episode": _episode}
    values = {name: made.get(name, _same)(value) for name, value in line.items()}
    for name in kind.__dataclass_fields__:
        if name not in values and name in ("accuracy", "spread_all", "spread_kept", "path"):
            values[name] = None
    return at, kind(**values)


def _interval(found: Mapping[str, float]) -> Interval:
    return Interval(**found)


def _episode(found: Mapping[str, Any]) -> events.Episode:
    return events.Episode(**{"correct": None, **found})


def _same(value: Any) -> Any:
    return value
