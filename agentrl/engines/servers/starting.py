"""Settings → an engine of servers: who they are, and how they will get weights.

In    addresses, settings, what is known of the policy
Out   ServersEngine, when every server answered and can be trained with
Not   the servers themselves: `agentrl serve`
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

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
from agentrl.sections import EngineSection

LOOK = 15.0
"""Seconds between looks at a server that is busy with a turn."""
SHAPES = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
)
"""Of config.json: models that differ in one of these can't have each other's weights."""
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
    _refuse_twins(urls, facts)
    for url, one in zip(urls, facts, strict=True):
        _refuse_other_model(url, one.folder, trained.folder)
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


def _refuse_twins(urls: Sequence[str], facts: Sequence[Facts]) -> None:
    """Two names of one server: each would tell it to go on in the other's hand-over."""
    known: dict[tuple[str, int | None], str] = {}
    for url, one in zip(urls, facts, strict=True):
        # vLLM names its processes by five letters: alone these might be the same by chance.
        name = one.instance, urlsplit(url).port
        other = known.setdefault(name, url) if one.instance else url
        if other != url:
            raise UsageError(f"--url {url}: the same server as {other}. Leave one out.")


def _refuse_other_model(url: str, served: str, own: Path) -> None:
    """Other shapes would be found out when they are overwritten, which no server survives."""
    theirs, ours = _shapes(Path(served)), _shapes(own)
    for name in SHAPES:
        if name in theirs and name in ours and theirs[name] != ours[name]:
            raise UsageError(
                f"--url {url}: it serves {served}, whose {name} is {theirs[name]}; the policy's is "
                f"{ours[name]}. Start it on the run's own model: `agentrl serve --model M`."
            )


def _shapes(folder: Path) -> Mapping[str, Any]:
    """Of the model in a folder; nothing where it is not on this machine."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        shapes: Mapping[str, Any] = found.get("text_config", found)
    except (OSError, ValueError, AttributeError):
        return {}
    return shapes


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
    _refuse_way(way, trained, urls, facts)
    if way in ("nccl", "ipc"):
        return transfer.TransferCarrier(way, transfer.kit(), settings.sync_timeout)
    root = _root(settings, way, urls) / f"agentrl-weights-{tag.text}"
    if way == "lora":
        return LoraCarrier(root, tag, settings.sync_timeout)
    return FolderCarrier(root, trained.folder, trained.twins, settings.sync_timeout)


def _refuse_way(way: str, trained: Trained, urls: Sequence[str], facts: Sequence[Facts]) -> None:
    """A way that trainer or servers were not made for is told before the run begins."""
    if way == "lora" and not trained.adapted:
        raise UsageError(
            "--engine.weights lora: there is no adapter. Add --model.lora_rank 16, or use folder."
        )
    if way in ("nccl", "ipc") and not torch.cuda.is_available():
        raise UsageError(
            f"--engine.weights {way}: there is no GPU that weights could come from. Use folder."
        )
    for url, one in zip(urls, facts, strict=True):
        if not {"lora": one.adapters, "folder": True}.get(way, one.transfer == way):
            rank = "--model.lora_rank 16 " if way == "lora" else ""
            raise UsageError(
                f"--url {url}: it was not started to take weights by {way}. Start it with "
                f"`agentrl serve {rank}--engine.weights {way}`, or use --engine.weights folder."
            )


def _root(settings: EngineSection, way: str, urls: Sequence[str]) -> Path:
    """The folder that both sides see; a server elsewhere does not see this machine's own."""
    if settings.weights_folder:
        folder = Path(settings.weights_folder).expanduser().resolve()
        there = next(p for p in (folder, *folder.parents) if p.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise UsageError(
                f"--engine.weights_folder {settings.weights_folder}: cannot be written at {there}. "
                "Give a folder that can, which servers see too."
            )
        return folder
    far = [url for url in urls if not is_loopback(url)]
    if far:
        raise UsageError(
            f"--url {far[0]}: a server elsewhere reads new weights ({way}) from a folder that "
            "both machines see under one path. Name it: --engine.weights_folder PATH."
        )
    return Path(tempfile.gettempdir())
