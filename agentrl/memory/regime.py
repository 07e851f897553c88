"""Regime: how a model is trained, as far as memory is concerned.

In    choices, each a word or a number
Out   Regime, checked; bytes of states for a shape
Not   whether this machine can do it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from agentrl.errors import UsageError, suggestion
from agentrl.memory.shape import Shape

Mode = Literal["full", "lora", "qlora"]
Dtype = Literal["bfloat16", "float32", "mixed"]
OptimizerName = Literal["adamw", "adamw8bit", "offloaded"]
Checkpointing = Literal["none", "layers", "offload"]
Kernels = Literal["eager", "compiled"]
HeadName = Literal["chunked", "whole"]

WORDS: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "dtype": get_args(Dtype),
    "optimizer": get_args(OptimizerName),
    "checkpointing": get_args(Checkpointing),
    "kernels": get_args(Kernels),
    "head": get_args(HeadName),
}

GIB = 1024**3

_MOMENTS = {"adamw": 8.0, "adamw8bit": 2 + 8 / 256, "offloaded": 0.0}
"""Bytes of both moments of a parameter on the device; 8 bits have a float32 scale in 256."""

_FOUR_BITS = 0.5 + 4 / 64
"""Bytes of a quantised weight: half of one, and a float32 scale for 64 of them."""


@dataclass(frozen=True, slots=True)
class Regime:
    """What decides the bytes of an update, beside the shape and the tokens."""

    mode: Mode = "full"
    dtype: Dtype = "bfloat16"
    """bfloat16 keeps float32 masters beside the weights of a full fine-tuning; mixed holds
    float32 weights and computes with bfloat16 copies that are gathered layer by layer."""
    optimizer: OptimizerName = "adamw"
    checkpointing: Checkpointing = "layers"
    """layers: each layer's input is kept and the rest computed again; offload: on the host."""
    kernels: Kernels = "eager"
    shards: int = 1
    """Devices that share weights, gradients and moments. More than one gather as mixed does."""
    lora_rank: int = 16
    head: HeadName = "chunked"
    """whole: logits of all positions at once, as a plain implementation holds them."""
    head_bytes: int = GIB
    """What the temporaries of one chunk of the head may take."""
    engine_bytes: int = 0
    """What an engine on the same device holds meanwhile."""

    def __post_init__(self) -> None:
        for name, known in WORDS.items():
            value = getattr(self, name)
            if value not in known:
                hint = suggestion(str(value), known, f"Known: {', '.join(known)}.")
                raise UsageError(f"--{name} {value}: no such {name}. {hint}")
        for name, least in (("shards", 1), ("lora_rank", 1), ("head_bytes", 1)):
            if getattr(self, name) < least:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} {getattr(self, name)}: less than {least}. Raise it.")
        if self.mode == "qlora" and self.shards > 1:
            raise UsageError(
                "--shards: a 4-bit base is not split. Use --mode lora, or one shard for qlora."
            )

    @property
    def frozen(self) -> bool:
        """Whether only an adapter is trained."""
        return self.mode != "full"

    @property
    def width(self) -> int:
        """Bytes of a number that is computed with."""
        return 4 if self.dtype == "float32" else 2

    @property
    def gathers(self) -> bool:
        """Whether weights are held in shards and copied to be computed with."""
        return self.dtype == "mixed" or self.shards > 1

    def states(self, shape: Shape) -> int:
        """Bytes of weights, gradients and moments, before anything is computed."""
        exact = 4.0 if self.gathers or self.dtype == "float32" else float(self.width)
        weights = exact * shape.parameters
        if self.mode == "qlora":
            quantised = shape.layers * shape.linear_parameters
            weights -= (exact - _FOUR_BITS) * quantised
        trained = shape.adapter(self.lora_rank) if self.frozen else shape.parameters
        # An adapter is float32; half-precision weights have a float32 master each.
        masters = 4.0 if self.frozen or exact < 4 else 0.0
        moments = _MOMENTS[self.optimizer]
        return round((weights + trained * (masters + 4.0 + moments)) / self.shards)
