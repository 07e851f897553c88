"""Optimizers: AdamW, and where and how exactly it keeps its two moments.

In    a name, parameters in float32, learning rate and decay
Out   a torch optimizer whose state survives state_dict, torch.save and load_state_dict
Not   other mathematics than AdamW's
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from agentrl.errors import UsageError, suggestion
from agentrl.optional import need

Build = Callable[[Sequence[Parameter], float, float], Optimizer]
EXTRA = "bnb"


def build(name: str, params: Sequence[Parameter], *, lr: float, weight_decay: float) -> Optimizer:
    """Make the optimizer of that name.

    Raises:
        UsageError: no such optimizer, its package is missing, or it can't work here.
    """
    if name not in OPTIMIZERS:
        known = ", ".join(OPTIMIZERS)
        raise UsageError(
            f"--update.optimizer {name}: no such optimizer. {suggestion(name, OPTIMIZERS, known)}"
        )
    return OPTIMIZERS[name](params, lr, weight_decay)


def _adamw(params: Sequence[Parameter], lr: float, weight_decay: float) -> Optimizer:
    return torch.optim.AdamW(params, lr=lr, weight_decay=weight_decay, fused=True)


def _adamw8bit(params: Sequence[Parameter], lr: float, weight_decay: float) -> Optimizer:
    """Moments in 8 bits, by blocks; those of small parameters stay as they are."""
    bnb = need("bitsandbytes", EXTRA, "--update.optimizer adamw8bit")
    made: Optimizer = bnb.optim.AdamW8bit(params, lr=lr, weight_decay=weight_decay)
    return made


def _offloaded(params: Sequence[Parameter], lr: float, weight_decay: float) -> Optimizer:
    """Moments in memory that CUDA moves between host and device as it is used."""
    where = "--update.optimizer offloaded"
    if any(p.device.type != "cuda" for p in params):
        raise UsageError(
            f"{where}: it moves moments off a CUDA device, and the parameters are on "
            f"{params[0].device}. Use adamw, or adamw8bit for smaller moments."
        )
    return paged(need("bitsandbytes", EXTRA, where), params, lr, weight_decay)


def paged(bnb: Any, params: Sequence[Parameter], lr: float, weight_decay: float) -> Optimizer:
    """AdamW with paged moments, which stay paged when they are loaded."""

    class Paged(bnb.optim.PagedAdamW):  # type: ignore[misc]
        """The library's own would load moments onto the device and leave them there."""

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            """Take a state whose tensors are on the host."""
            super().load_state_dict(state, move_to_device=False)
            for group in self.param_groups:
                for parameter in group["params"]:
                    moments = self.state.get(parameter, {})
                    for key in moments.keys() & {"state1", "state2"}:
                        saved = moments[key]
                        moments[key] = self.get_state_buffer(parameter, dtype=saved.dtype)
                        moments[key].copy_(saved)

    made: Optimizer = Paged(params, lr=lr, weight_decay=weight_decay)
    return made


OPTIMIZERS: Mapping[str, Build] = MappingProxyType(
    {"adamw": _adamw, "adamw8bit": _adamw8bit, "offloaded": _offloaded}
)
"""By what --update.optimizer calls them."""
