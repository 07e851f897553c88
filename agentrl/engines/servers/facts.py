"""What must be known of a server before it is used: asked once, when it starts.

In    an address
Out   Facts: its model, what it holds, and by which path tokens go in and out
Not   anything that changes while it runs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentrl.engines.servers.client import UNREADABLE, Client, Refused
from agentrl.errors import UsageError

SECONDS = 30.0
"""For one answer of a server that does nothing else; the first one reads its surroundings."""
GENERATE, COMPLETIONS = "/inference/v1/generate", "/v1/completions"
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class Facts:
    """One server."""

    model: str
    """The name that requests address."""
    context: int
    """Tokens of prompt and completion together."""
    rows: int
    """Requests that it computes at once."""
    dtype: str
    """float32 or bfloat16."""
    path: str
    """GENERATE, or COMPLETIONS where that is switched off."""
    release: str
    """Of vLLM."""
    folder: str = ""
    """What it was started on: a folder there, or a name."""
    adapters: bool = False
    """Whether it was started to take adapters."""
    instance: str = ""
    """Which process it is, where it says so."""
    transfer: str = ""
    """How it was started to take weights from GPU to GPU: nccl, ipc, or not."""


async def look(client: Client) -> Facts:
    """Ask a server what it is.

    Raises:
        ServerTrouble: it doesn't answer.
        UsageError: it is none that can be trained with; the message says how to start one.
    """
    try:
        models = await client.get("/v1/models", SECONDS)
        told = await client.get("/server_info", SECONDS, {"config_format": "json"})
        info = told["vllm_config"]
        release = (await client.get("/version", SECONDS))["version"]
        return _facts(models, info, release, await _path(client))
    except UNREADABLE as error:
        raise UsageError(
            f"--url {client.url}: it doesn't answer as a vLLM server does ({error!r}). "
            "Start one with `agentrl serve`."
        ) from error
    except (Refused, _Unfit) as error:
        raise UsageError(f"--url {client.url}: {error}") from error


class _Unfit(Exception):
    """Why a server can't be trained with."""


def _facts(models: Any, info: Mapping[str, Any], release: str, path: str) -> Facts:
    served, model = models["data"][0], info["model_config"]
    dtype = str(model["dtype"]).removeprefix("torch.")
    mode = model["logprobs_mode"]
    if mode != "processed_logprobs":
        raise _Unfit(
            f"its log-probs are {mode}, not those of the distribution that is sampled. "
            "Start it with --logprobs-mode processed_logprobs, as `agentrl serve` does."
        )
    if dtype not in DTYPES:
        raise _Unfit(f"it computes in {dtype}. Start it with --dtype float32 or bfloat16.")
    return Facts(
        model=str(served["id"]),
        context=int(served["max_model_len"]),
        rows=int(info["scheduler_config"]["max_num_seqs"]),
        dtype=dtype,
        path=path,
        release=release,
        folder=str(model.get("model", "")),
        instance=str(info.get("instance_id") or ""),
        adapters=info.get("lora_config") is not None,
        transfer=str((info.get("weight_transfer_config") or {}).get("backend", "")),
    )


async def _path(client: Client) -> str:
    """Where tokens go in: an empty question is refused in one way or another."""
    try:
        await client.post(GENERATE, {}, seconds=SECONDS)
    except Refused as refusal:
        return COMPLETIONS if refusal.status in (403, 404) else GENERATE
    return GENERATE
