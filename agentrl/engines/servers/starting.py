"""Settings → an engine of servers: who they are, and how they will get weights.

In    addresses, settings, what is known of the policy
Out   ServersEngine, when every server answered and can be trained with
Not   the servers themselves: `agentrl serve`
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentrl.config import EngineSection
from agentrl.engines.servers import transfer
from agentrl.engines.servers.address import addresses, is_loopback
from agentrl.engines.servers.carriers import Carrier
from agentrl.engines.servers.client import Client, ServerTrouble
from agentrl.engines.servers.engine import ServersEngine
from agentrl.engines.servers.facts import COMPLETIONS, Facts, look
from agentrl.engines.servers.folder import FolderCarrier
from agentrl.engines.servers.label import Tag
from agentrl.engines.servers.lora import LoraCarrier
from agentrl.engines.servers.pool import Patience
from agentrl.errors import UsageError

LOOK = 15.0
"""Seconds between looks at a server that is busy with a turn."""
KEY = "VLLM_API_KEY"
"""Environment variable with the key of servers that want one, as vLLM itself reads it."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What servers must know of the policy."""

    folder: Path
    vocabulary: int
    twins: Mapping[str, str]
    """Tensors that are also kept under a second name, and that name."""
    adapted: bool
    """Whether only an adapter is trained."""
    context: int


def start(settings: EngineSection, trained: Trained, tell: Callable[[str], None]) -> ServersEngine:
    """Meet the servers.

    Raises:
        UsageError: an address is none, nobody answers there, or a server can't be trained with.
    """
    urls = addresses(settings.urls)
    key = os.environ.get(KEY)
    facts = asyncio.run(_look_at_all(urls, key))
    for url, one in zip(urls, facts, strict=True):
        if one.path == COMPLETIONS:
            tell(
                f"{url}: it was started without --enable-scale-out: turns go through "
                f"{COMPLETIONS}, and wait while weights are handed over."
            )
    tag = Tag(secrets.token_hex(4))
    return ServersEngine(
        [Client(url, key) for url in urls],
        facts,
        _carrier(settings, trained, urls, facts, tag),
        tag,
        Patience(
            settings.retries,
            settings.request_timeout,
            settings.token_timeout,
            settings.patience,
            min(LOOK, settings.request_timeout),
        ),
        max_context=trained.context,
        max_live=settings.max_live,
        vocabulary=trained.vocabulary,
        sync_seconds=settings.sync_timeout,
        rows=settings.requests,
        tell=tell,
    )


async def _look_at_all(urls: Sequence[str], key: str | None) -> list[Facts]:
    return list(await asyncio.gather(*(_look_at(url, key) for url in urls)))


async def _look_at(url: str, key: str | None) -> Facts:
    client = Client(url, key)
    try:
        return await look(client)
    except ServerTrouble as trouble:
        raise UsageError(
            f"--url {url}: no server answers there ({trouble}). Start one with "
            "`agentrl serve`, or put the address right."
        ) from trouble
    finally:
        await client.close()


def _carrier(
    settings: EngineSection,
    trained: Trained,
    urls: Sequence[str],
    facts: Sequence[Facts],
    tag: Tag,
) -> Carrier:
    way = settings.weights
    if way == "auto":
        way = "lora" if trained.adapted and all(one.adapters for one in facts) else "folder"
    if way == "lora" and not trained.adapted:
        raise UsageError(
            "--engine.weights lora: there is no adapter. Add --model.lora_rank 16, or use folder."
        )
    if way in ("nccl", "ipc"):
        return transfer.TransferCarrier(way, transfer.kit(), settings.sync_timeout)
    root = _root(settings, way, urls) / f"agentrl-weights-{tag.text}"
    if way == "lora":
        return LoraCarrier(root, tag, settings.sync_timeout)
    return FolderCarrier(root, trained.folder, trained.twins, settings.sync_timeout)


def _root(settings: EngineSection, way: str, urls: Sequence[str]) -> Path:
    """The folder that both sides see; a server elsewhere does not see this machine's own."""
    if settings.weights_folder:
        return Path(settings.weights_folder).expanduser().resolve()
    far = [url for url in urls if not is_loopback(url)]
    if far:
        raise UsageError(
            f"--url {far[0]}: a server elsewhere reads new weights ({way}) from a folder that "
            "both machines see under one path. Name it: --engine.weights_folder PATH."
        )
    return Path(tempfile.gettempdir())
