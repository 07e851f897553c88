"""Settings → Engine: the table of engines and what `auto` means.

In    engine settings, the policy that is trained or measured
Out   a started engine
Not   vllm itself: it is imported by engines/vllm.py, and only when an engine of it is made
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from agentrl import adapter
from agentrl.engines.room import SHARE
from agentrl.engines.servers.starting import Trained, start
from agentrl.engines.transformers import TransformersEngine
from agentrl.engines.vllm import VllmEngine
from agentrl.policy import Engine
from agentrl.schedule import refuse_in_waves, schedule_of
from agentrl.sections import EngineSection, RolloutSection
from agentrl.weights import Policy


@dataclass(frozen=True, slots=True)
class Order:
    """All that an engine is made from."""

    settings: EngineSection
    policy: Policy
    folder: Path
    """A folder with the policy's files, for engines that read them."""
    max_context: int
    seed: int
    trained_meanwhile: bool = False
    """The policy learns while the engine plays: it needs weights of its own."""
    rollout: RolloutSection = field(default_factory=RolloutSection)
    """How episodes will be played on it."""
    cache_bytes: int | None = None
    """Key-value cache of an engine on the learner's GPU; None: by its share."""

    @property
    def waves(self) -> bool:
        """Whether turns are computed in waves; UsageError where the engine can't do that."""
        return schedule_of(resolve(self.settings.name), self.rollout.schedule) == "waves"


def resolve(name: str) -> str:
    """The engine that `auto` stands for on this machine."""
    if name != "auto":
        return name
    found = importlib.util.find_spec("vllm") is not None
    return "vllm" if found and torch.cuda.is_available() else "transformers"


def build(order: Order) -> Engine:
    """Start the engine that the settings name.

    Raises:
        UsageError: it can't, or not play so.
    """
    if order.waves:
        rollout = order.rollout
        refuse_in_waves(oversample=rollout.oversample, requests=rollout.requests_at_once)
    return ENGINES[resolve(order.settings.name)](order)


def _transformers(order: Order) -> Engine:
    return TransformersEngine(
        order.policy.model,
        max_context=order.max_context,
        max_live=order.settings.max_live,
        own_copy=order.trained_meanwhile,
        schedule="waves" if order.waves else "stream",
    )


def _vllm(order: Order) -> Engine:
    dtype = order.settings.dtype
    if dtype == "auto":
        dtype = "float32" if order.policy.model.dtype == torch.float32 else "bfloat16"
    return VllmEngine(
        order.folder,
        dtype=dtype,
        max_context=order.max_context,
        max_live=order.settings.max_live,
        memory_share=order.settings.memory_share or SHARE,
        cache_gib=order.settings.cache_gib,
        seed=order.seed,
        cache_bytes=order.cache_bytes,
        sleep=order.settings.sleep,
    )


def _servers(order: Order) -> Engine:
    model: Any = order.policy.model
    trained = Trained(
        order.folder,
        vocabulary=model.get_input_embeddings().weight.shape[0],
        twins={of: to for to, of in model.all_tied_weights_keys.items()},
        adapted=adapter.is_adapted(model),
        context=order.max_context,
    )
    return start(order.settings, trained, logging.getLogger("agentrl").warning)


ENGINES: dict[str, Callable[[Order], Engine]] = {
    "transformers": _transformers,
    "vllm": _vllm,
    "vllm-server": _servers,
}
