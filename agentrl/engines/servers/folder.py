"""Weights through a folder that trainer and servers both see.

In    named tensors, one at a time
Out   a folder a version, whole or not there; the newest two are kept
Not   a copy over the network: servers on other machines need a shared file system
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from agentrl import disk
from agentrl.engines.servers.server import Server
from agentrl.errors import EngineError, WeightSyncError, blame
from agentrl.policy import WeightSource

KEPT = 2
SHARD = 4 * 2**30
"""Bytes of tensors that are held before they are written."""
STABLE = "STABLE"
"""Written last: without this file a version is not whole."""
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.index.json")
INDEX = "model.safetensors.index.json"


class FolderCarrier:
    """Writes each version once, and tells every server where it lies."""

    pauses = True
    again = True

    def __init__(
        self, root: Path, model: Path, twins: Mapping[str, str], seconds: float, shard: int = SHARD
    ) -> None:
        """Write nothing yet.

        Args:
            root: A folder of this run's own.
            model: A folder with the model's other files.
            twins: Tensors that are also kept under a second name, and that name.
            seconds: A server may take to read a version.
            shard: Bytes of tensors in one file.
        """
        self._root, self._files, self._twins = root, model, twins
        self._seconds, self._shard = seconds, shard

    async def bring(self, source: WeightSource, version: int) -> None:
        """Write a version."""
        with blame(WeightSyncError, f"engine vllm-server, writing weights to {self._root}"):
            await asyncio.to_thread(self._write, source, version)

    async def give(self, server: Server, version: int) -> None:
        """Let a server read it."""
        folder = self.folder(version)
        if not (folder / STABLE).is_file():
            raise EngineError(f"{folder} is not whole")
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        await server.client.post("/collective_rpc", body, seconds=self._seconds)

    def model(self, server: Server, version: int) -> str:
        """Versions take each other's place."""
        return server.facts.model

    async def tidy(self, servers: Sequence[Server]) -> None:
        """Remove all versions but the newest."""
        await asyncio.to_thread(self._remove_old)

    async def close(self) -> None:
        """Remove what was written."""
        await asyncio.to_thread(shutil.rmtree, self._root, ignore_errors=True)

    def folder(self, version: int) -> Path:
        """Where a version lies."""
        return self._root / f"{version:06d}"

    def _write(self, source: WeightSource, version: int) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        aside, folder = self._root / f".{version:06d}", self.folder(version)
        for old in (aside, folder):
            shutil.rmtree(old, ignore_errors=True)
        aside.mkdir()
        for file in self._files.iterdir():
            if file.is_file() and not any(file.match(pattern) for pattern in WEIGHTS):
                shutil.copyfile(file, aside / file.name)
        write_shards(self._named(source), aside, self._shard)
        for file in aside.iterdir():
            disk.sync_file(file)
        disk.replace(aside / STABLE, f"{version}\n")
        aside.rename(folder)
        disk.sync_folder(self._root)

    def _named(self, source: WeightSource) -> Iterator[tuple[str, torch.Tensor]]:
        """Tensors of their own on the host, twins under both names."""
        for name, tensor in source.items():
            own = tensor.detach().to("cpu", copy=True).contiguous()
            yield name, own
            if name in self._twins:
                yield self._twins[name], own.clone()

    def _remove_old(self) -> None:
        whole = sorted(p for p in self._root.glob("[0-9]*") if p.is_dir())
        for folder in whole[:-KEPT]:
            shutil.rmtree(folder, ignore_errors=True)


def write_shards(
    tensors: Iterator[tuple[str, torch.Tensor]], folder: Path, most_bytes: int
) -> None:
    """Write tensors into files of bounded size, with the index that names them."""
    shards: list[list[str]] = []
    held: dict[str, torch.Tensor] = {}
    size = 0

    def flush() -> None:
        nonlocal size
        save_file(held, folder / _shard(len(shards)), metadata={"format": "pt"})
        shards.append(list(held))
        held.clear()
        size = 0

    for name, tensor in tensors:
        held[name] = tensor
        size += tensor.nbytes
        if size >= most_bytes:
            flush()
    if held:
        flush()
    where = {name: _shard(number) for number, names in enumerate(shards) for name in names}
    disk.replace(folder / INDEX, json.dumps({"metadata": {}, "weight_map": where}))


def _shard(number: int) -> str:
    return f"model-{number + 1:05d}.safetensors"
