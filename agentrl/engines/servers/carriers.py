"""How new weights come to a server: what every way can do.

In    weights on the trainer's side
Out   the same on a server that is paused, or under a new name
Not   the order of things around it (handover.py), nor proof
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from agentrl.engines.servers.server import Server
from agentrl.policy import WeightSource


class AdapterSource(WeightSource, Protocol):
    """Weights that are an adapter on a base which servers have."""

    def save_adapter(self, folder: Path) -> None:
        """Write the adapter as peft does."""
        ...


class Carrier(Protocol):
    """One way."""

    pauses: bool
    """Whether a server must not sample meanwhile."""
    again: bool
    """Whether the newest version can be given once more, to a server that comes back."""

    async def bring(self, source: WeightSource, version: int) -> None:
        """Make a version ready to be given."""
        ...

    async def give(self, server: Server, version: int) -> None:
        """Give it to one server; raises ServerTrouble or Refused."""
        ...

    def model(self, server: Server, version: int) -> str:
        """The name by which requests address it there."""
        ...

    async def tidy(self, servers: Sequence[Server]) -> None:
        """Take away what nobody needs any more."""
        ...

    async def close(self) -> None:
        """Take away all that was made."""
        ...
