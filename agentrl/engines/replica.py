"""Replica: weights of an engine's own, so that the policy may be trained while it is sampled from.

In    the policy's module; later, new weights as named tensors
Out   a plain module of the same kind that computes the same, with memory of its own
Not   a proof that the new weights arrived: the engine compares log-probs
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from agentrl import adapter
from agentrl.errors import EngineError, WeightSyncError
from agentrl.policy import WeightSource
from agentrl.weights import ModelWeights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WHERE = "transformers engine, weights of its own"


@torch.no_grad()
def replica_of(model: PreTrainedModel) -> PreTrainedModel:
    """A frozen copy; adapters are merged into it, layers of 4 bits unpacked.

    Raises:
        EngineError: a checkpoint names its tensors otherwise than the module holds them.
    """
    made = copy.deepcopy(model) if adapter.is_plain(model) else _bare(model)
    made.requires_grad_(False).eval()
    try:
        take(made, ModelWeights(model))
    except WeightSyncError as error:
        raise EngineError(f"{error} Use another engine for this model.") from error
    return made


@torch.no_grad()
def take(own: PreTrainedModel, source: WeightSource) -> None:
    """Copy every tensor of a source into a module.

    Raises:
        WeightSyncError: one is missing, unknown, or of another shape.
    """
    held = own.state_dict()
    left = held.keys() - own.all_tied_weights_keys.keys()
    for name, tensor in source.items():
        place = held.get(name)
        if place is None or place.shape != tensor.shape:
            what = "unknown" if place is None else f"{list(tensor.shape)}, not {list(place.shape)}"
            raise WeightSyncError(f"{WHERE}: {name} is {what}. It must be this model's.")
        place.copy_(tensor)
        left.discard(name)
    if left:
        raise WeightSyncError(
            f"{WHERE}: {len(left)} tensors did not come, {min(left)} among them. "
            "It would compute with old ones."
        )


def _bare(model: PreTrainedModel) -> PreTrainedModel:
    """A module of the same kind without adapters; its weights are random."""
    config = copy.deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        made: PreTrainedModel = type(model)(config)
    placed: PreTrainedModel = made.to(model.device, model.dtype)  # type: ignore[arg-type]
    return placed
