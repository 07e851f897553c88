"""Master weights: what the optimizer moves when a model computes in half precision.

In    a model
Out   float32 copies of its half-precision weights, which gather all gradients
Not   copies of float32 weights: those are their own masters
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

HALF = (torch.bfloat16, torch.float16)


class Masters:
    """Pairs of a trained parameter and its master.

    A small step on a half-precision weight is rounded away, and so are small gradients
    of many micro-batches. Both happen in the master; the model gets the rounded result.
    """

    def __init__(self, model: Module) -> None:
        trained = [p for p in model.parameters() if p.requires_grad]
        self._pairs = [(p, _master(p)) for p in trained]

    @property
    def parameters(self) -> list[Parameter]:
        """All masters, in the model's order."""
        return [master for _, master in self._pairs]

    @property
    def copies(self) -> list[Tensor]:
        """Those that are not the model's own parameters."""
        return [master.detach() for parameter, master in self._pairs if master is not parameter]

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Within, each half-precision gradient goes to its master as soon as it is whole."""
        with ExitStack() as stack:
            for parameter, master in self._pairs:
                if master is not parameter:
                    on_gradient: Any = parameter.register_post_accumulate_grad_hook
                    stack.callback(on_gradient(_handing_to(master)).remove)
            yield

    @torch.no_grad()
    def take(self, values: Sequence[Tensor]) -> None:
        """Set the copies, and the model's weights from them."""
        for copy, value in zip(self.copies, values, strict=True):
            copy.copy_(value)
        self.publish()

    @torch.no_grad()
    def publish(self) -> None:
        """Round the masters into the model."""
        for parameter, master in self._pairs:
            if master is not parameter:
                parameter.copy_(master)

    def forget_gradients(self) -> None:
        """Free all gradients."""
        for pair in self._pairs:
            for tensor in pair:
                tensor.grad = None


def _master(parameter: Parameter) -> Parameter:
    return Parameter(parameter.detach().float()) if parameter.dtype in HALF else parameter


def _handing_to(master: Parameter) -> Callable[[Tensor], None]:
    def hand_over(parameter: Tensor) -> None:
        grad, parameter.grad = parameter.grad, None
        if grad is not None:
            master.grad = grad.float() if master.grad is None else master.grad.add_(grad)

    return hand_over
