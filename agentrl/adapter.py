"""Adapter: LoRA by peft, put into a model in place; what the model then amounts to.

In    a causal language model; rank, alpha, the linear layers to adapt
Out   the same model, frozen but for float32 adapters; its weights as a plain model would hold them
Not   adapters of embeddings or of the output head, dropout, several adapters at once
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import Linear, Module

from agentrl import fourbit
from agentrl.errors import UsageError, suggestion
from agentrl.optional import need

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ALL = "all-linear"
"""Every linear layer but the output head."""
FOLDER = "adapter"
"""Where a saved policy keeps its adapter, in peft's own format."""

_NAME = "default"
_CONFIG, _TENSORS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_SETTINGS = {"r": "lora_rank", "lora_alpha": "lora_alpha", "target_modules": "lora_targets"}


def add(
    model: PreTrainedModel, rank: int, alpha: float, targets: str = ALL, *, seed: int = 0
) -> None:
    """Freeze a model and put an adapter beside each target; nothing it computes changes yet.

    Args:
        model: Changed in place; its class and the names of its parts stay.
        rank: Of the matrix that is added to each target.
        alpha: That matrix is scaled by alpha / rank.
        targets: ALL, or names of linear layers with commas between.
        seed: Of the first random weights.

    Raises:
        UsageError: peft is missing, or the model or a target can't be adapted.
    """
    peft = need("peft", "lora", f"--model.lora_rank {rank}")
    _refuse_stacks(model, rank)
    layers = _targets(model, targets)
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=layers)
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        peft.inject_adapter_in_model(config, model, adapter_name=_NAME)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".lora_" in name)
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    model.eval()


def is_plain(model: PreTrainedModel) -> bool:
    """Whether a model holds its weights as they are: no adapter, nothing quantised."""
    return not any(_is_adapted(m) or fourbit.is_quantized(m) for m in model.modules())


def is_adapted(model: PreTrainedModel) -> bool:
    """Whether `add` was here."""
    return any(_is_adapted(module) for module in model.modules())


def stored(model: PreTrainedModel) -> dict[str, Tensor]:
    """What a model holds, under the names that a plain one has; adapters left out."""
    known = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    known |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    return {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in model.state_dict().items()
        if name in known and ".lora_" not in name
    }


class Merging:
    """Held tensors → those of a plain model, one at a time; the model stays as it is."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._layers: dict[tuple[Any, ...], Module] = {}
        for module in model.modules():
            if _is_adapted(module) or fourbit.is_quantized(module):
                # An adapted layer's base comes after it, and must not replace it.
                self._layers.setdefault(_key(_base(module).weight), module)

    @torch.no_grad()
    def whole(self, held: Tensor) -> Tensor:
        """The tensor with its adapter added, in its base's dtype; the same one if it has none."""
        layer = self._layers.get(_key(held))
        if layer is None:
            return held
        base = _base(layer)
        weight = fourbit.weight_of(base) if fourbit.is_quantized(base) else held
        if not _is_adapted(layer):
            return weight
        delta: Tensor = layer.get_delta_weight(_NAME)  # type: ignore[operator]
        return delta.add_(weight).to(weight.dtype)

    def touches(self, held: Tensor) -> bool:
        """Whether a plain model's tensor is another one than this."""
        return _key(held) in self._layers

    def missed(self, every: Mapping[str, Tensor]) -> bool:
        """Whether an adapter has no tensor of its own here to be added to."""
        return not self._layers.keys() <= {_key(tensor) for tensor in every.values()}


def save(model: PreTrainedModel, folder: Path, base: str) -> None:
    """Write the adapter as peft does; `base` is the name of the model it belongs to."""
    config = copy.copy(_config(model))
    config.target_modules = sorted(config.target_modules)
    config.base_model_name_or_path, config.inference_mode = base, True
    config.save_pretrained(folder)
    tensors = {name: held.detach().contiguous() for name, held in _tensors(model)}
    save_file(tensors, folder / _TENSORS, metadata={"format": "pt"})


def load(model: PreTrainedModel, folder: Path) -> None:
    """Take the adapter that `save` wrote.

    Raises:
        UsageError: it was made with other settings, or belongs to another model.
    """
    check(model, folder)
    saved = load_file(folder / _TENSORS)
    own = dict(_tensors(model))
    if {n: t.shape for n, t in own.items()} != {n: t.shape for n, t in saved.items()}:
        raise UsageError(
            f"{folder}: the adapter of another model. Resume with the model that was saved."
        )
    with torch.no_grad():
        for name, held in own.items():
            held.copy_(saved[name])


def check(model: PreTrainedModel, folder: Path) -> None:
    """Refuse a saved adapter that has other settings, or is there where none should be.

    Raises:
        UsageError: with the setting's name and both values.
    """
    path = folder / _CONFIG
    saved = _facts(json.loads(path.read_text())) if path.is_file() else {"lora_rank": 0}
    own = _facts(vars(_config(model))) if is_adapted(model) else {"lora_rank": 0}
    for name in own.keys() & saved.keys():
        if own[name] != saved[name]:
            raise UsageError(
                f"{folder.parent}: it was saved with --model.{name} {saved[name]}, not "
                f"{own[name]}. Resume with the settings that it was saved with."
            )


def _facts(config: Mapping[str, Any]) -> dict[str, Any]:
    found = {ours: config[theirs] for theirs, ours in _SETTINGS.items()}
    return found | {"lora_targets": ",".join(sorted(found["lora_targets"]))}


def _config(model: PreTrainedModel) -> Any:
    configs: Any = model.peft_config
    return configs[_NAME]


def _tensors(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            yield _PREFIX + name.replace(f".{_NAME}.", "."), parameter


def _refuse_stacks(model: PreTrainedModel, rank: int) -> None:
    for name, parameter in model.named_parameters():
        if parameter.dim() > 2:
            raise UsageError(
                f"--model.lora_rank {rank}: {type(model).__name__} holds {name} as a stack of "
                "matrices, as mixtures of experts do. Adapters are for dense models. Leave it out."
            )


def _targets(model: PreTrainedModel, text: str) -> list[str]:
    """Ends of names of linear layers, each of which is there and can be adapted."""
    where = f"--model.lora_targets {text}"
    special = {model.get_input_embeddings(), model.get_output_embeddings()}
    outside = [name for name, module in model.named_modules() if module in special]
    linear = [name for name, module in model.named_modules() if isinstance(module, Linear)]
    last = sorted({name.rpartition(".")[2] for name in linear if name not in outside})
    targets = last if text == ALL else [part.strip() for part in text.split(",")]
    for target in targets:
        if any(_ends(name, target) for name in outside):
            raise UsageError(
                f"{where}: {target} is an embedding or the output head, which all log-probs "
                "are computed from and stays as it is. Leave it out."
            )
        if not any(_ends(name, target) for name in linear):
            hint = suggestion(target, last, f"It has {', '.join(last)}.")
            raise UsageError(f"{where}: no linear layer is called {target!r}. {hint}")
    return targets


def _ends(name: str, end: str) -> bool:
    return f".{name}".endswith(f".{end}")


def _is_adapted(module: Module) -> bool:
    return _NAME in getattr(module, "lora_A", ())


def _base(module: Module) -> Any:
    return module.get_base_layer() if _is_adapted(module) else module  # type: ignore[operator]


def _key(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape)
