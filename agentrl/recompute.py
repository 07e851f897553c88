"""Recompute: activations are made again in backward, not kept.

In    a model whose layers can
Out   a block within which they do, at the memory of one layer's activations
Not   dropout: it stays off, as in all of the update
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
