"""Room: what an engine on the learner's own GPU may take, beside an update or instead of it.

In    a model's shape and regime, the device's memory, how long and how many episodes are
Out   Room: bytes of key-value cache, and what is missing for the update meanwhile
Not   a measurement: it holds before anything has run, and an update's peak is predicted
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from agentrl.config import TrainConfig
from agentrl.errors import UsageError
from agentrl.forecast import WIDEST, regime_of
from agentrl.memory import Regime, Shape, footprint, shape_of
from agentrl.memory.footprint import need
from agentrl.memory.size import in_words, parse_size

GIB = 2**30
OVERHEAD = 2 * GIB
"""Of vLLM beside weights and cache: a step's activations and its recorded graphs."""
RESIDUE = 2 * GIB
"""What stays with a vLLM that sleeps; others saw 0.8 to 7 GiB."""
SHARE = 0.4
"""Of the device, for models whose memory can't be predicted."""


@dataclass(frozen=True, slots=True)
class Room:
    """An engine's part of the device."""

    cache_bytes: int
    """Keys and values."""
    taken: int
    """Bytes that an update does not have, because the engine has them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What play and update will want."""

    tokens: int
    """Of the micro-batch that has to fit."""
    context: int
    live: int
    """Episodes at once."""
    sleeps: bool
    update_bytes: int | None = None
    """What the settings give the update; None: what is predicted."""


def room_for(shape: Shape, regime: Regime, spare: int, demand: Demand) -> Room:
    """Divide a device: first the update, then the engine's weights, and the rest is cache.

    No more cache than all episodes fill at their longest; what is left then is the update's.

    Args:
        shape: Of the model.
        regime: How it is trained.
        spare: Bytes of the device that this process may use, those in use included.
        demand: What will be wanted.

    Raises:
        UsageError: not one episode's cache is left.
    """
    width = 4 if regime.dtype == "float32" else 2
    weights, each = shape.parameters * width, 2 * shape.layers * shape.keys * width
    footing = footprint(shape, regime, demand.tokens)
    # While it plays, of the update only its states are there.
    beside = need(footing.states if demand.sleeps else demand.update_bytes or footing.total)
    left = spare - beside - weights - OVERHEAD
    if left < demand.context * each:
        raise UsageError(
            f"--engine vllm: {in_words(spare)} hold the update ({in_words(beside)}) and vLLM's "
            f"weights ({in_words(weights)}), but then not the cache of one episode of "
            f"{demand.context} tokens. Lower --rollout.max_context or "
            "--update.tokens_per_micro_batch, add --engine.sleep true, or see `agentrl plan`."
        )
    cache = min(left, demand.live * demand.context * each)
    return Room(cache, RESIDUE if demand.sleeps else weights + cache + OVERHEAD)


def room_of(config: TrainConfig, model: PreTrainedModel) -> Room | None:
    """The room that settings leave to be found out; None where they or the model say otherwise.

    Raises:
        UsageError: there is too little.
    """
    if model.device.type != "cuda" or config.engine.memory_share:
        return None
    try:
        shape = shape_of(model.config.get_text_config().to_dict())
    except UsageError:
        return None
    wanted, longest = config.update.tokens_per_micro_batch, config.rollout.max_context
    demand = Demand(
        tokens=min(longest, WIDEST["cuda"]) if wanted == "auto" else wanted,
        context=longest,
        live=config.engine.max_live,
        sleeps=config.engine.sleep,
        update_bytes=parse_size(config.update.memory) if config.update.memory else None,
    )
    free, _ = torch.cuda.mem_get_info(model.device)
    spare = free + torch.cuda.memory_reserved(model.device)
    return room_for(shape, regime_of(model, config.model, config.update), spare, demand)


def share_of(config: TrainConfig, model: PreTrainedModel) -> float:
    """Share of a GPU that an update does not have because of vLLM."""
    if model.device.type != "cuda":
        return 0.0
    room = room_of(config, model)
    if room is None:
        return config.engine.memory_share or SHARE
    return room.taken / torch.cuda.mem_get_info(model.device)[1]
