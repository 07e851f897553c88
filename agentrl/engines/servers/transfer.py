"""Weights from GPU to GPU, by vLLM's own weight transfer: NCCL, or CUDA IPC on one device.

In    named tensors on the trainer's GPU
Out   the same in each server, one server after the other
Not   run on hardware yet: what is called, and how, is tested against vLLM's signatures
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from torch import Tensor

from agentrl.author import TooSlow, run_author
from agentrl.engines.servers.client import ServerTrouble
from agentrl.engines.servers.server import Server
from agentrl.errors import EngineError, UsageError, blame
from agentrl.policy import WeightSource

PACKAGE = "vllm.distributed.weight_transfer"
NAMES = {
    "start": ("factory", "WeightTransferTrainerFactory"),
    "client": ("clients", "HTTPVLLMWeightSyncClient"),
    "source": ("base", "WeightSource"),
    "meta": ("base", "ParamMeta"),
    "nccl": ("nccl_engine", "NCCLTrainerInitInfo"),
    "ipc": ("ipc_engine", "IPCTrainerInitInfo"),
}
"""What is used of vLLM: the module and the name in it."""
LOOK = 30.0


def kit(load: Callable[[str], Any] = importlib.import_module) -> dict[str, Any]:
    """VLLM's weight transfer, or a line that says what is missing.

    Raises:
        UsageError: vLLM is not installed here, or has other names.
    """
    found = {}
    for key, (module, name) in NAMES.items():
        try:
            found[key] = getattr(load(f"{PACKAGE}.{module}"), name)
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"--engine.weights: vLLM's weight transfer is not here as it is known "
                f"({PACKAGE}.{module}.{name}: {error}). Use --engine.weights folder."
            ) from error
    return found


@dataclass(frozen=True, slots=True)
class Listed:
    """One pass over a source's tensors, and another one for their names and shapes."""

    source: WeightSource

    def metadata(self, made: Callable[..., Any]) -> list[Any]:
        """Names, dtypes and shapes, in the order of `items`."""
        return [made(name, t.dtype, tuple(t.shape)) for name, t in self.source.items()]

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors."""
        return self.source.items()


class TransferCarrier:
    """Drives vLLM's trainer side once for each server, in a thread."""

    pauses = True
    again = False

    def __init__(self, way: str, parts: Mapping[str, Any], seconds: float) -> None:
        """Open no connection yet.

        Args:
            way: nccl or ipc.
            parts: What `kit` found.
            seconds: One server's transfer may take.
        """
        self._way, self._parts, self._seconds = way, parts, seconds
        self._senders: dict[Server, Any] = {}
        self._source: Listed | None = None

    async def bring(self, source: WeightSource, version: int) -> None:
        """Remember where the tensors are: they stay on the GPU."""
        self._source = Listed(source)

    async def give(self, server: Server, version: int) -> None:
        """Send them, in a thread that is left behind where it hangs."""
        world = (await server.client.get("/get_world_size", LOOK))["world_size"]
        try:
            with blame(EngineError, f"{self._way} transfer"):
                await run_author(self._send, server, int(world), seconds=self._seconds)
        except TooSlow:
            said = f"{self._way} transfer: not done within {self._seconds:g} s"
            raise ServerTrouble(said, lost=True) from None

    def model(self, server: Server, version: int) -> str:
        """Versions take each other's place."""
        return server.facts.model

    async def tidy(self, servers: Sequence[Server]) -> None:
        """A server that was lost has left its group: it gets a new one."""
        for server in servers:
            if not server.up:
                self._senders.pop(server, None)

    async def close(self) -> None:
        """Let go of the groups."""
        self._senders.clear()

    def _send(self, server: Server, world: int) -> None:
        if server not in self._senders:
            self._senders[server] = self._parts["start"].trainer_init(
                self._opening(server, world),
                client=self._parts["client"](server.url, timeout=self._seconds),
                source=self._vllm_source(),
            )
        self._senders[server].send_weights()

    def _opening(self, server: Server, world: int) -> Any:
        if self._way == "ipc":
            return self._parts["ipc"](rank=0, packed=True)
        address = _own_address(server.url)
        return self._parts["nccl"](address, _free_port(address), 1 + world, rank=0, packed=True)

    def _vllm_source(self) -> Any:
        """The newest weights, whichever they are when they are asked for, as vLLM reads them."""
        carrier, made = self, self._parts["meta"]

        class Newest(self._parts["source"]):  # type: ignore[name-defined, misc]
            """Its base class is vLLM's, known only when vLLM is loaded."""

            def metadata(self) -> list[Any]:
                return carrier.listed.metadata(made)

            def __iter__(self) -> Iterator[tuple[str, Tensor]]:
                return carrier.listed.items()

        return Newest()

    @property
    def listed(self) -> Listed:
        """The tensors to be sent next."""
        assert self._source is not None, "bring comes first"
        return self._source


def _own_address(url: str) -> str:
    """The address of this machine that a server sees."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with socket.create_connection((parts.hostname or "", port), timeout=LOOK) as connection:
        return str(connection.getsockname()[0])


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
