"""Jail: what a process gives up before it runs a policy's code, in the one safe order.

In    Jail: the level, what the code may see, the uids to run as
Out   in the server, Prepared; in each child, a process that can only compute, read what
      it was shown, and write to the descriptors it was left
Not   the choice of the level, nor a judge of whether it holds: that is what the probe tries
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrl.sandbox.result import Limits

SCRATCH = "/scratch/work"
"""The code's own folder at level 3: HOME, TMPDIR and where it starts. It goes with the child."""
SLOTS = 1024
"""Uids from `Jail.uid` on that belong to one server: slots run from 0 to this, excluded."""


@dataclass(frozen=True, slots=True)
class Jail:
    """How to hold the code: plain data, made on the host and sent to the server."""

    level: int
    """3 namespaces, 2 Landlock and seccomp, 1 limits alone."""
    files: tuple[str, ...]
    """Files and folders that may be read, with all beneath them."""
    folders: tuple[str, ...]
    """Folders that may be listed and whose content is shown only where `files` says so; these
    are what the server appends to `sys.path`."""
    hidden: tuple[str, ...] = ()
    """Folders beneath `files` that are left out (site-packages inside the standard library)."""
    uid: int = 0
    """First of the uids used where the host is root; 0 where it is not."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the server holds ready for its children."""

    jail: Jail


def prepare(jail: Jail) -> Prepared:
    """Make the calling process a server; it must be single-threaded and not yet hold secrets.

    Raises:
        OSError: a step is not possible here; the message names it.
    """
    return Prepared(jail)


def fork(prepared: Prepared) -> int:
    """Fork as `os.fork` does; at level 3 the child is the first of its own pid namespace.

    Raises:
        OSError: the kernel refused.
    """
    raise NotImplementedError


def enter(prepared: Prepared, slot: int, limits: Limits, keep: Sequence[int] = ()) -> None:
    """Lock the calling child in; all that runs afterwards runs inside.

    Descriptors 0, 1, 2 and those of `keep` stay open, all others are closed.

    Raises:
        OSError: a step failed; the message names it, and the child must end at once.
    """
    raise NotImplementedError
