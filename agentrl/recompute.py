"""Recompute: activations are made again in backward, not kept, or kept on the host.

In    a model whose layers can
Out   a block within which they do, at the memory of one layer's activations
Not   dropout: it stays off, as in all of the update
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING

from torch.autograd.graph import save_on_cpu

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextmanager
def recomputing(model: PreTrainedModel) -> Iterator[None]:
    """Recompute activations in backward, with dropout still off.

    Layers recompute only in training mode, so the mode of the layer itself changes, but
    not that of the modules inside, where dropout is.
    """
    model.gradient_checkpointing_enable({"use_reentrant": False})
    layers = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False)]
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
        model.gradient_checkpointing_disable()


@contextmanager
def offloading(model: PreTrainedModel) -> Iterator[None]:
    """Recompute, and keep what each layer starts from on the host."""
    pinned = model.device.type == "cuda"
    with recomputing(model), save_on_cpu(pin_memory=pinned):
        yield


MEMORY: Mapping[str, Callable[[PreTrainedModel], AbstractContextManager[None]]] = MappingProxyType(
    {"none": lambda model: nullcontext(), "layers": recomputing, "offload": offloading}
)
"""What is done about activations."""
