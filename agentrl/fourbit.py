"""Four bits: the linear layers of a frozen base in 4-bit blocks, by bitsandbytes.

In    a model in float32 or bfloat16
Out   the same model on its device, its linear layers but the head quantised (NF4, blocks of 64)
Not   trainable: gradients pass through such a layer to adapters, never to its weights
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Linear, Module

from agentrl.optional import need

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BLOCK = 64
"""Weights that share one float32 scale."""


def quantize(model: PreTrainedModel, device: torch.device) -> None:
    """Replace the layers one by one, so that the device never holds them unquantised."""
    bnb = need("bitsandbytes", "bnb", "--model.base_bits 4")
    head = model.get_output_embeddings()
    layers = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) is Linear and child is not head
    ]
    for parent, name, layer in layers:
        setattr(parent, name, _quantized(bnb, layer).to(device))
    model.requires_grad_(False)
    Module.to(model, device)


def is_quantized(layer: Module) -> bool:
    """Whether `quantize` made this layer."""
    return getattr(getattr(layer, "weight", None), "quant_state", None) is not None


def weight_of(layer: Module) -> Tensor:
    """A quantised layer's weights as it computes with them."""
    functional = need("bitsandbytes.functional", "bnb", "--model.base_bits 4")
    weight: Any = layer.weight
    whole: Tensor = functional.dequantize_4bit(weight.data, weight.quant_state)
    return whole


def _quantized(bnb: Any, layer: Linear) -> Any:
    made = bnb.nn.Linear4bit(
        layer.in_features,
        layer.out_features,
        bias=layer.bias is not None,
        compute_dtype=layer.weight.dtype,
        compress_statistics=False,
        quant_type="nf4",
        device="meta",
    )
    made.weight = bnb.nn.Params4bit(
        layer.weight.data,
        requires_grad=False,
        blocksize=BLOCK,
        compress_statistics=False,
        quant_type="nf4",
        module=made,
    )
    made.bias = layer.bias
    # In evaluation it would repack its weights for a kernel that has no gradient.
    made.support_avx512bf16_for_cpu = False
    return made.eval()
