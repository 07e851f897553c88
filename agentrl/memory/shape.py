"""Shape: the sizes of a decoder, as its config.json gives them.

In    a config as transformers writes it
Out   Shape: exact numbers of parameters, and widths that activations are counted by
Not   mixtures of experts, recurrent layers, images: their activations are counted otherwise
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agentrl.errors import UsageError, suggestion


@dataclass(frozen=True, slots=True)
class Shape:
    """A stack of equal layers, each attention and a gated MLP, between embedding and head."""

    layers: int
    hidden: int
    """Width of the stream between layers."""
    intermediate: int
    """Width inside an MLP."""
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool
    """The embedding is the output head too."""
    qk_norm: bool = False
    """Queries and keys are normalised, head by head."""
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False

    @property
    def queries(self) -> int:
        """Width of all queries of a token."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of all keys of a token, and of all values."""
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of a layer's linear maps: q, k, v, o, gate, up, down."""
        h, i, q, k = self.hidden, self.intermediate, self.queries, self.keys
        return (h, q), (h, k), (h, k), (q, h), (h, i), (h, i), (i, h)

    @property
    def linear_parameters(self) -> int:
        """Weights of a layer's linear maps, without biases."""
        return sum(inputs * outputs for inputs, outputs in self.linears)

    @property
    def layer_parameters(self) -> int:
        """All parameters of a layer."""
        biases = (self.queries + 2 * self.keys) * self.qkv_bias + self.hidden * self.output_bias
        biases += (2 * self.intermediate + self.hidden) * self.mlp_bias
        return self.linear_parameters + biases + 2 * self.hidden + 2 * self.head_dim * self.qk_norm

    @property
    def embedding(self) -> int:
        """Parameters of the embedding; the head has as many."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters, tied ones once."""
        ends = self.embedding * (1 if self.tied else 2) + self.hidden
        return self.layers * self.layer_parameters + ends

    def adapter(self, rank: int) -> int:
        """Parameters of a low-rank adapter on every linear map of every layer."""
        return self.layers * rank * sum(inputs + outputs for inputs, outputs in self.linears)


FAMILIES: Mapping[str, Mapping[str, bool]] = MappingProxyType(
    {
        "granite": {},
        "llama": {},
        "mistral": {},
        "qwen2": {"qkv_bias": True},
        "qwen3": {"qk_norm": True},
        "smollm3": {},
    }
)
"""`model_type` to what its config.json takes for granted."""

_WITHOUT_BIAS = ("mistral", "qwen2")
"""Whose output projection has none, whatever attention_bias says."""
_MLP_BIAS = ("granite", "llama", "smollm3")
"""That read mlp_bias at all."""

LARGEST = 10**9
"""No size of a model is as large."""

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size")
_RECURRENT = ("ssm_cfg", "mamba_d_state", "linear_num_value_heads", "state_size", "rwkv_version")
_MIXED = ("linear_attention", "mamba", "conv", "recurrent")


def shape_of(config: Mapping[str, Any], where: str = "config.json") -> Shape:
    """Read a shape.

    Args:
        config: As in a model's config.json.
        where: What to call it in an error.

    Raises:
        UsageError: it is of a kind whose memory is not known, or a size is missing.
    """
    kind = _kind(config, where)
    heads = _size(config, "num_attention_heads", where)
    hidden = _size(config, "hidden_size", where)
    bias = kind not in _WITHOUT_BIAS and bool(config.get("attention_bias", False))
    return Shape(
        layers=_size(config, "num_hidden_layers", where),
        hidden=hidden,
        intermediate=_size(config, "intermediate_size", where),
        vocab=_size(config, "vocab_size", where),
        heads=heads,
        kv_heads=_size(config, "num_key_value_heads", where, heads),
        head_dim=_size(config, "head_dim", where, hidden // heads),
        tied=bool(config.get("tie_word_embeddings", kind == "smollm3")),
        qk_norm=FAMILIES[kind].get("qk_norm", False),
        qkv_bias=FAMILIES[kind].get("qkv_bias", bias),
        output_bias=bias,
        mlp_bias=kind in _MLP_BIAS and bool(config.get("mlp_bias", False)),
    )


def _kind(config: Mapping[str, Any], where: str) -> str:
    """The family, or what keeps the model from being one of them."""
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise UsageError(
            f"{where}: no model_type. It is not the config.json of a model. Give that file, or "
            "the folder that holds it."
        )
    reason = _foreign(config, kind)
    if kind in FAMILIES and not reason:
        return kind
    known = ", ".join(FAMILIES)
    hint = suggestion(kind, FAMILIES) if not reason else ""
    raise UsageError(
        f"{where}: {kind} {reason or 'is an architecture whose memory is not known here'}. "
        f"Plans are made for {known}. {hint or 'Try a step on the device itself.'}"
    )


def _foreign(config: Mapping[str, Any], kind: str) -> str:
    given = config.get("layer_types") or ()
    layers = [str(layer) for layer in given] if isinstance(given, list | tuple) else [str(given)]
    if "moe" in kind or any(config.get(key) for key in _EXPERTS):
        return "is a mixture of experts, whose memory depends on how tokens are routed"
    if any(key in config for key in _RECURRENT) or any(
        mark in layer for layer in layers for mark in _MIXED
    ):
        return "has recurrent layers (a hybrid), whose memory is not counted by tokens alone"
    if "vision_config" in config or "text_config" in config:
        return "takes images too, whose memory is not counted by text tokens"
    if config.get("is_encoder_decoder"):
        return "is an encoder with a decoder, not a causal language model"
    return ""


def _size(config: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < LARGEST:
        raise UsageError(
            f"{where}: {key} is {reprlib.repr(value)}, not a positive whole number. "
            "Copy the file again from the model."
        )
    return value
