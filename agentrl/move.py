"""Move: from whole gradients to changed weights, once.

In    masters that hold gradients, an optimizer
Out   clipped gradients, moved masters, the model's weights from them
Not   gradients: whoever calls has summed them over micro-batches and ranks
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Optimizer

from agentrl.errors import RunError
from agentrl.master import Masters
from agentrl.oom import free, in_short, is_oom

T = TypeVar("T")
Stamp = Callable[[], list[Any]]
"""Equal before and after, where nothing has changed."""


class Move:
    """Clips and steps. Where memory runs out it frees some and does that part once more."""

    def __init__(self, masters: Masters, optimizer: Optimizer, grad_norm: float) -> None:
        self._masters = masters
        self._optimizer = optimizer
        self._grad_norm = grad_norm

    def norm(self) -> tuple[float, int]:
        """Length of the gradient, and how often memory ran out."""
        gradients = self._gradients()
        return once_more(lambda: float(get_total_norm(gradients)), list)

    def apply(self, norm: float) -> int:
        """Clip a gradient of that length and step; how often memory ran out.

        Raises:
            RunError: memory ran out with some weights moved and others not.
        """
        gradients = self._gradients()
        clip = partial(
            clip_grads_with_norm_, self._masters.parameters, self._grad_norm, torch.tensor(norm)
        )
        _, first = once_more(clip, lambda: [gradient._version for gradient in gradients])
        _, second = once_more(self._optimizer.step, partial(_stamp, self._optimizer))
        _, third = once_more(self._masters.publish, list)
        return first + second + third

    def _gradients(self) -> list[Tensor]:
        return [p.grad for p in self._masters.parameters if p.grad is not None]


def allocate(optimizer: Optimizer) -> None:
    """Make an optimizer's states: a step without gradient at rate 0, which is not counted."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    for state in optimizer.state.values():
        if isinstance(state["step"], Tensor):
            state["step"].zero_()
        else:
            state["step"] = 0


def once_more(work: Callable[[], T], stamp: Stamp) -> tuple[T, int]:
    """Do it; again after freeing, where memory ran out before it changed anything.

    Raises:
        RunError: it has stopped half way.
    """
    before = stamp()
    try:
        return work(), 0
    except Exception as error:
        if not is_oom(error):
            raise
        words = in_short(error)
    if stamp() != before:
        raise RunError(
            "update: out of memory in the middle of the optimizer's step; some weights have moved "
            f"and some not. {words} Resume from the last checkpoint, with fewer tokens in "
            "update.tokens_per_micro_batch."
        )
    free()
    return work(), 1


def _stamp(optimizer: Optimizer) -> list[Any]:
    """Changes once any part of a step is done: step counts rise before all else."""
    parts = (part for state in optimizer.state.values() for part in state.values())
    return [part._version if isinstance(part, Tensor) else part for part in parts]
