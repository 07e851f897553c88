"""Events → what a person sees of a run: a panel, or plain lines with the same facts.

In    events of a run, a stream
Out   on a terminal a live panel; elsewhere lines that a person can read and grep can find
Not   how the panel looks (screen/); nothing here decides what is recorded
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from agentrl import disk
from agentrl.amounts import duration, number, plural
from agentrl.events import (
    Event,
    Listener,
    Measured,
    Played,
    Started,
    Stepped,
    Stopping,
    Warned,
)
from agentrl.glyphs import is_rich, spelled
from agentrl.interrupt import AGAIN
from agentrl.interval import Interval
from agentrl.prints import hidden
from agentrl.visible import on_a_line


def kind_of(progress: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    """What a setting comes to: live needs a terminal that can move its cursor.

    Args:
        progress: auto, live, plain, json or off. auto is live, but not where CI is set.
        stream: Where it is shown.
        environ: Variables of this process.
    """
    if environ.get("RANK", "0") != "0":  # it shares the updates of another process
        return "off"
    if progress not in ("auto", "live"):
        return progress
    able = stream.isatty() and environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    wanted = progress == "live" or not environ.get("CI")
    return "live" if able and wanted else "plain"


def listener(progress: str, stream: TextIO) -> Listener | None:
    """What shows a run in lines: json is one row a step, off is nothing."""
    makers: dict[str, Any] = {"auto": Plain, "live": Plain, "plain": Plain, "json": Json}
    return makers[progress](stream) if progress in makers else None


@contextmanager
def showing(
    progress: str, stream: TextIO, environ: Mapping[str, str], log: str = ""
) -> Iterator[tuple[Listener, ...]]:
    """Show a run for a block; what environments print meanwhile is for its log alone.

    Args:
        progress: As `kind_of` takes it.
        stream: Where it is shown.
        environ: Variables of this process.
        log: Where what is printed can be read; empty where nothing keeps it.
    """
    kind = kind_of(progress, stream, environ)
    if kind == "live":
        from agentrl.screen import live

        with live(stream) as shown:
            yield (shown,)
        return
    told, printed = listener(kind, stream), Counter[str]()
    with hidden("authors", lambda text: printed.update(lines=text.count("\n"))):
        yield () if told is None else (told,)
    if printed["lines"] and log and kind == "plain":
        _write(stream, f"{plural(printed['lines'], 'line')} printed meanwhile: see {log}")


@dataclass(slots=True)
class Plain:
    """One line an event."""

    stream: TextIO

    def __call__(self, event: Event) -> None:
        """Write the event's line, where it has one."""
        if text := describe(event):
            _write(self.stream, text)


@dataclass(slots=True)
class Json:
    """The metrics row of each step, or each episode of an evaluation, as one line."""

    stream: TextIO

    def __call__(self, event: Event) -> None:
        """Write a row."""
        if isinstance(event, Stepped):
            _write(self.stream, json.dumps(disk.plain(event.row)))
        elif isinstance(event, Played) and event.phase == "eval":
            _write(self.stream, json.dumps(asdict(event)))


def _write(stream: TextIO, line: str) -> None:
    """At once and in one piece: other threads write too."""
    rich = is_rich(getattr(stream, "encoding", None) or "utf-8")
    stream.write(f"{spelled(line, rich)}\n")
    stream.flush()


def describe(event: Event) -> str:
    """The line of an event; empty where it has none."""
    return on_a_line(_described(event))


def _described(event: Event) -> str:
    match event:
        case Started():
            return _started(event)
        case Played(phase="eval"):
            return _tenth(event)
        case Measured():
            return f"held-out step {event.step} accuracy {interval(event.accuracy)} " + (
                f"tasks {event.tasks} took {event.seconds:.1f}s"
            )
        case Stepped():
            return _stepped(event)
        case Warned():
            return f"warning: {event.text}"
        case Stopping():
            return AGAIN
        case _:
            return ""


def interval(found: Interval | None) -> str:
    """A mean with its interval, as people read it."""
    return "-" if found is None else f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


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
        f"reward {number(r['reward'])}",
        f"heldout {number(r['heldout'])}",
        f"spread {number(r['select/spread_all'])}>{number(r['select/spread_kept'])}",
        f"kept {r['select/kept']}/{r['select/of']}",
        f"flat {r['select/flat']}",
        *_left_out(r),
        f"turns {number(r['env/turns'], 1)}",
        f"tools {number(r['env/tool_calls'], 1)}",
        f"failed {r['env/tool_failures']:.0%}",
        f"kl {number(r['mismatch/k3'], 4)}",
        f"grad {number(r['update/grad_norm'])}",
        f"rollout {number(r['time/rollout'], 1)}s",
        f"update {number(r['time/update'], 1)}s",
        f"tok/s {r['tokens/sampled'] / max(r['time/rollout'], 1e-9):.0f}",
        f"elapsed {duration(e.elapsed)}",
        f"left {duration(e.left)}",
    ]
    return " ".join(facts)


def _left_out(row: Mapping[str, Any]) -> list[str]:
    """What `reward` is not of, where anything was left out."""
    told = {"skipped": row.get("play/skipped"), "stopped": row.get("play/pilot_flat")}
    return [f"{name} {count}" for name, count in told.items() if count]


def _tenth(e: Played) -> str:
    """A line for each tenth of an evaluation."""
    new = e.of and e.done * 10 // e.of > (e.done - 1) * 10 // e.of
    return f"played {e.done} of {e.of} episodes" if new else ""
