"""Peak memory of the learner's own parts, counted over fake tensors: nothing is computed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from agentrl import adapter
from agentrl.head import score
from agentrl.loss import clipped_loss
from agentrl.master import Masters
from agentrl.recompute import recomputing
from agentrl.rowwise import by_rows


class Tracker(MemTracker):
    """Leaves out the hooks that only sort gradients from the rest: frozen weights take none."""

    def _track_module_params_and_buffers(self, module, install_grad_hooks=True):
        return super()._track_module_params_and_buffers(module, install_grad_hooks=False)


def _skeleton(config: Mapping[str, Any], dtype: torch.dtype, rank: int) -> PreTrainedModel:
    """A model without values; with a rank, frozen but for an adapter on every linear layer."""
    options = {k: v for k, v in config.items() if k != "model_type"}
    settings = AutoConfig.for_model(config["model_type"], **options)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(settings, dtype=dtype).eval()
        if rank:
            adapter.add(model, rank, rank)
    return model


def _to_fake(model: nn.Module) -> None:
    """Give each weight a fake storage; tied ones stay one."""
    made: dict[int, Tensor] = {}

    def fake(value: Tensor) -> Tensor:
        empty = torch.empty(value.shape, dtype=value.dtype)
        if isinstance(value, nn.Parameter):
            return nn.Parameter(empty, requires_grad=value.requires_grad)
        return empty

    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, value in held.items():
                if value is not None:
                    held[name] = made.setdefault(id(value), fake(value))


def peak(
    config: Mapping[str, Any],
    tokens: int,
    *,
    trained: int | None = None,
    rows: int = 1,
    dtype: torch.dtype = torch.bfloat16,
    lora_rank: int = 0,
    checkpointing: bool = False,
) -> int:
    """Bytes at the fullest moment of a step of two micro-batches, optimizer states present."""
    model = _skeleton(config, dtype, lora_rank)
    with FakeTensorMode():
        _to_fake(model)
        masters = Masters(model)
        optimizer = torch.optim.AdamW(masters.parameters, lr=1e-4, fused=True)
        tracker = Tracker()
        tracker.track_external(model, optimizer, *masters.parameters)
        recompute = recomputing(model) if checkpointing else nullcontext()
        with tracker, masters.gathering(), recompute, by_rows(model):
            for sizes in (((1, 16, 16),), ((rows, tokens, trained or tokens),) * 2):
                for shape in sizes:
                    _backward(model, *shape)
                    tracker.reset_mod_stats()
                torch.nn.utils.clip_grad_norm_(masters.parameters, 1.0)
                optimizer.step()
                masters.publish()
                masters.forget_gradients()
        (found,) = tracker.get_tracker_snapshot("peak").values()
    return int(found["Total"])


def _backward(model: PreTrainedModel, rows: int, tokens: int, trained: int) -> None:
    ids = torch.zeros(1, tokens, dtype=torch.long)
    at, labels = torch.zeros(2, trained, dtype=torch.long)
    behaviour, advantages, weights = torch.zeros(3, trained)
    found = score(model, ids, at, labels, lengths=(tokens // rows,) * rows)
    clipped_loss(
        found.logprobs, behaviour, advantages, weights, clip_low=0.2, clip_high=0.2
    ).loss.backward()
