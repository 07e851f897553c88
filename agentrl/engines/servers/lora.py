"""Weights as an adapter under a name of its own: nothing is paused, nothing replaced.

In    the adapter of a version, written as peft does
Out   the same, loaded by every server under `agentrl-TAG-VERSION`
Not   a change of the base: servers must have started on it

A turn that began with one adapter ends with it. An adapter is unloaded when no turn uses it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

from agentrl import disk
from agentrl.engines.servers.carriers import AdapterSource
from agentrl.engines.servers.client import Refused, ServerTrouble
from agentrl.engines.servers.folder import KEPT
from agentrl.engines.servers.label import Tag
from agentrl.engines.servers.server import Server
from agentrl.errors import WeightSyncError, blame
from agentrl.policy import WeightSource

UNLOAD = 5.0
"""Seconds: a server that hangs holds up neither a hand-over nor the end of a run for long."""


class LoraCarrier:
    """Each version is a new adapter; the same name never means two of them."""

    pauses = False
    again = True

    def __init__(self, root: Path, tag: Tag, seconds: float) -> None:
        """Write nothing yet.

        Args:
            root: A folder of this run's own, which servers see too.
            tag: Of the run.
            seconds: A server may take to load an adapter.
        """
        self._root, self._tag, self._seconds = root, tag, seconds
        self._loaded: dict[Server, list[int]] = {}

    async def bring(self, source: WeightSource, version: int) -> None:
        """Write the adapter."""
        adapter = cast(AdapterSource, source)
        with blame(WeightSyncError, f"engine vllm-server, writing an adapter to {self._root}"):
            await asyncio.to_thread(self._write, adapter, version)

    async def give(self, server: Server, version: int) -> None:
        """Let a server load it; what it holds under that name already is dropped first."""
        name = self._tag.of(version)
        body = {"lora_name": name, "lora_path": str(self._folder(version))}
        load = partial(
            server.client.post, "/v1/load_lora_adapter", body, seconds=self._seconds, silent=True
        )
        try:
            await load()
        except Refused as refusal:
            if refusal.status == 404:
                raise
            await self._unload(server, version)
            await load()
        self._loaded.setdefault(server, []).append(version)

    def model(self, server: Server, version: int) -> str:
        """The adapter's name."""
        return self._tag.of(version)

    async def tidy(self, servers: Sequence[Server]) -> None:
        """Unload adapters that no turn uses any more, and remove their files."""
        for server in servers:
            for version in [v for v in self._loaded.get(server, []) if v != server.version]:
                if not server.asked[self._tag.of(version)] and server.up:
                    await self._unload(server, version)
                    self._loaded[server].remove(version)
        await asyncio.to_thread(self._remove_old)

    async def close(self) -> None:
        """Unload all, and remove what was written."""
        for server, versions in self._loaded.items():
            for version in versions if server.up else ():
                await self._unload(server, version)
        await asyncio.to_thread(shutil.rmtree, self._root, ignore_errors=True)

    async def _unload(self, server: Server, version: int) -> None:
        body = {"lora_name": self._tag.of(version)}
        # Refused, it has none of that name; in trouble, its next turn will tell.
        with suppress(Refused, ServerTrouble):
            await server.client.post("/v1/unload_lora_adapter", body, seconds=UNLOAD, silent=True)

    def _write(self, source: AdapterSource, version: int) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        aside, folder = self._root / f".{version:06d}", self._folder(version)
        for old in (aside, folder):
            shutil.rmtree(old, ignore_errors=True)
        aside.mkdir()
        source.save_adapter(aside)
        for file in aside.iterdir():
            disk.sync_file(file)
        aside.rename(folder)
        disk.sync_folder(self._root)

    def _folder(self, version: int) -> Path:
        return self._root / f"{version:06d}"

    def _remove_old(self) -> None:
        for folder in sorted(self._root.glob("[0-9]*"))[:-KEPT]:
            shutil.rmtree(folder, ignore_errors=True)
