"""One server as the pool sees it: open, closed for a hand-over, or lost.

In    its client and facts; what happens to it
Out   whether it may be asked, and how many requests it has
Not   what is asked: pool.py; nor hand-overs: handover.py
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from agentrl.engines.fingerprint import Fingerprint
from agentrl.engines.servers.client import Client
from agentrl.engines.servers.facts import Facts

Session = tuple[int, int]


@dataclass(slots=True, eq=False)
class Server:
    """Begins closed: nothing is sampled before its weights are proved."""

    client: Client
    facts: Facts
    room: asyncio.Semaphore
    """Requests that it may have at once."""
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it may be asked, and when it is lost, so that nobody waits for it."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it is lost."""
    suspicion: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One look at it at a time, however many requests failed."""
    cause: str = ""
    """Why it was lost."""
    losses: int = 0
    """What was asked before the last one counts for nothing after it."""
    troubles: int = 0
    """Since its last whole answer."""
    sessions: set[Session] = field(default_factory=set)
    busy: int = 0
    seen: float = 0.0
    """When it was last asked whether it lives, by the event loop's clock."""
    model: str = ""
    """The name that requests address: the base model's, or an adapter's."""
    version: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    """Requests that run, by the name they address."""
    last: Fingerprint | None = None
    """Of the weights that were proved last."""

    @property
    def url(self) -> str:
        """Its address."""
        return self.client.url

    @property
    def up(self) -> bool:
        """Whether it may be asked, now or after a hand-over that is going on."""
        return not self.gone.is_set()

    @property
    def open(self) -> bool:
        """Whether it may be asked now."""
        return self.opened.is_set() and self.up

    def close(self) -> None:
        """Let nothing new begin, and keep answers back, until its weights are proved."""
        if self.up:
            self.opened.clear()

    def admit(self, model: str, version: int) -> None:
        """Its weights are proved."""
        self.model, self.version = model, version
        self.cause, self.troubles = "", 0
        self.gone.clear()
        self.opened.set()

    def lose(self, cause: str) -> None:
        """Ask nothing more of it; what it still answers counts for nothing."""
        self.cause = cause
        self.losses += 1
        self.gone.set()
        self.opened.set()
