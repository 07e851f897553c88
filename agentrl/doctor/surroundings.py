"""Memory, disk and clock.

In    what the system says of them; a folder where runs are to be written
Out   findings
Not   a measurement of speed
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agentrl.doctor.finding import Finding, Status
from agentrl.doctor.memory import Memory
from agentrl.memory.size import in_words

GiB = 2**30
ENOUGH_MEMORY = 2 * GiB
"""A run with the embedded policy takes one GiB."""
LEAST_MEMORY = GiB
ENOUGH_DISK = 5 * GiB
LEAST_DISK = 100 * 2**20
"""A run with the embedded policy writes a quarter of that."""
DRIFT = 0.1
"""Seconds that two clocks may differ by after a moment."""


def of_memory(found: Memory | None) -> Iterator[Finding]:
    """Whether the smallest run fits, with room."""
    if found is None:
        said = "the system does not say how much there is"
        yield Finding("memory", "warn", said, f"See that {in_words(ENOUGH_MEMORY)} are free.")
        return
    said = f"{in_words(found.free)} free of {in_words(found.total)}"
    said += ", which a control group allows" if found.limited else ""
    fix = "Close what takes it, or raise the container's limit." if found.limited else ""
    fix = fix or f"Close what takes it: a small run needs {in_words(LEAST_MEMORY)}."
    if found.free >= ENOUGH_MEMORY:
        yield Finding("memory", "ok", said, needed=True)
    else:
        status: Status = "missing" if found.free < LEAST_MEMORY else "warn"
        yield Finding("memory", status, said, fix, needed=True)


def of_disk(out: str) -> Iterator[Finding]:
    """Whether runs can be written there, and how much."""
    place = Path(out).expanduser().absolute()
    while not os.path.isdir(place) and place != place.parent:
        if os.path.lexists(place):
            said = f"--out {out}: {place} is no folder"
            yield Finding("disk", "missing", said, "Name a folder with --out.", needed=True)
            return
        place = place.parent
    try:
        locks = _tried(place)
        free = shutil.disk_usage(place).free
    except OSError as error:
        said = f"--out {out}: nothing can be written in {place} ({error.strerror})"
        fix = "Name a folder with --out that you may write to, and that has room."
        yield Finding("disk", "missing", said, fix, needed=True)
        return
    said = f"{in_words(free)} free for --out {out}"
    room = "Make room, or name a folder on another disk with --out."
    if free >= ENOUGH_DISK:
        yield Finding("disk", "ok", said, needed=True)
    else:
        status: Status = "missing" if free < LEAST_DISK else "warn"
        yield Finding("disk", status, said, room, needed=True)
    if not locks:
        said = f"the file system of --out {out} knows none: two processes could write one run"
        yield Finding("locks", "warn", said, "Start one run at a time, or use a local disk.")


def _tried(folder: Path) -> bool:
    """Write a file that has no name, see it on disk; whether it can be locked.

    Raises:
        OSError: it can't be written.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())
        with suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks that a run asks."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    zone: str = ""
    """What the variable TZ says."""


def of_clock(clocks: Clocks, newest: float) -> Iterator[Finding]:
    """Whether time runs forward, at one speed, from a date that can be.

    Args:
        clocks: The clocks.
        newest: When the newest file of this package was written, in seconds since 1970.
    """
    walls, steadies = [clocks.wall()], [clocks.steady()]
    for _ in range(5):
        clocks.wait(0.01)
        walls.append(clocks.wall())
        steadies.append(clocks.steady())
    spans = [series[-1] - series[0] for series in (walls, steadies)]
    now = datetime.fromtimestamp(walls[-1], UTC)
    sync = "Set the clock, and have it kept: timedatectl set-ntp true."
    if any(b < a for a, b in pairwise(steadies)) or spans[1] <= 0:
        said = "the steady clock stands still or runs backward: limits on time can't hold"
        yield Finding("clock", "missing", said, "Restart the machine.", needed=True)
    elif abs(spans[0] - spans[1]) > DRIFT:
        said = f"the date jumped by {spans[0] - spans[1]:.1f} s while it was looked at"
        yield Finding("clock", "warn", said, sync)
    elif walls[-1] < newest - 86_400:
        said = f"{now:%Y-%m-%d %H:%M} UTC, before agentrl was installed"
        yield Finding("clock", "warn", said, sync)
    else:
        local = datetime.fromtimestamp(walls[-1]).astimezone()
        yield Finding("clock", "ok", f"{now:%Y-%m-%d %H:%M} UTC, here {local:%H:%M %Z (%z)}")
    if clocks.zone and not _is_zone(clocks.zone):
        said = f"TZ={clocks.zone} is no zone that is known here; local times are told as UTC"
        yield Finding("time zone", "warn", said, "Install tzdata, or set TZ to a known zone.")


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name.removeprefix(":"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # Also a rule such as EST5EDT,M3.2.0,M11.1.0, which needs no file.
        return bool(time.tzname[0]) and any(c.isdecimal() for c in name)
    return True
