"""Events → plain lines: the same facts in the same order, one line a step.

In    events of a run, a stream
Out   lines that a person can read and grep can find
Not   a live panel; nothing here decides what is recorded
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from agentrl import disk
from agentrl.events import Event, Listener, Measured, Played, Started, Stepped, Warned
from agentrl.interval import Interval


def listener(progress: str, stream: TextIO) -> Listener | None:
    """What shows a run: auto and plain are lines, json is one row a step, off is nothing."""
    makers: dict[str, Any] = {"auto": Plain, "plain": Plain, "json": Json}
    return makers[progress](stream) if progress in makers else None


@dataclass(slots=True)
class Plain:
    """One line an event."""

    stream: TextIO

    def __call__(self, event: Event) -> None:
        """Write the event's line, where it has one."""
        text = describe(event)
        if text:
            print(text, file=self.stream, flush=True)


@dataclass(slots=True)
class Json:
    """The metrics row of each step, as one line."""

    stream: TextIO

    def __call__(self, event: Event) -> None:
        """Write a step's row."""
        if isinstance(event, Stepped):
            print(json.dumps(disk.plain(event.row)), file=self.stream, flush=True)


def describe(event: Event) -> str:
    """The line of an event; empty where it has none."""
    if isinstance(event, Started):
        return _started(event)
    if isinstance(event, Measured):
        return f"held-out step {event.step} accuracy {interval(event.accuracy)} " + (
            f"tasks {event.tasks} took {event.seconds:.1f}s"
        )
    if isinstance(event, Stepped):
        return _stepped(event)
    if isinstance(event, Warned):
        return f"warning: {event.text}"
    assert isinstance(event, Played)
    return ""


def interval(found: Interval | None) -> str:
    """A mean with its interval, as people read it."""
    return "-" if found is None else f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def duration(seconds: float) -> str:
    """Seconds as 42s, 3m05s or 2h07m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole // 60 % 60:02d}m"


def _started(e: Started) -> str:
    first = f" from step {e.first_step}" if e.first_step > 1 else ""
    return (
        f"{e.env} · {e.model} on {e.engine} · n {e.n} -> m {e.m} · {e.tasks_per_step} tasks a step"
        f" · {e.steps} steps{first} · {e.path} · Ctrl-C saves and stops"
    )


def _stepped(e: Stepped) -> str:
    r: Mapping[str, Any] = e.row
    facts = [
        f"step {r['step']}/{e.steps}",
        f"reward {_number(r['reward'])}",
        f"heldout {_number(r['heldout'])}",
        f"spread {_number(r['select/spread_all'])}>{_number(r['select/spread_kept'])}",
        f"kept {r['select/kept']}/{r['select/of']}",
        f"flat {r['select/flat']}",
        *_left_out(r),
        f"turns {_number(r['env/turns'], 1)}",
        f"tools {_number(r['env/tool_calls'], 1)}",
        f"failed {r['env/tool_failures']:.0%}",
        f"kl {_number(r['mismatch/k3'], 4)}",
        f"grad {_number(r['update/grad_norm'])}",
        f"rollout {_number(r['time/rollout'], 1)}s",
        f"update {_number(r['time/update'], 1)}s",
        f"tok/s {r['tokens/sampled'] / max(r['time/rollout'], 1e-9):.0f}",
        f"elapsed {duration(e.elapsed)}",
        f"left {duration(e.left)}",
    ]
    return " ".join(facts)


def _left_out(row: Mapping[str, Any]) -> list[str]:
    """What `reward` is not of, where anything was left out."""
    told = {"skipped": row.get("play/skipped"), "stopped": row.get("play/pilot_flat")}
    return [f"{name} {count}" for name, count in told.items() if count]


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"
