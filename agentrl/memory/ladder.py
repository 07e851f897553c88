"""Ladder: what to change where something does not fit.

In    a shape, a regime that is too large, memory, tokens that should fit
Out   rungs in the order in which they cost least, each of which really fits
Not   changes of the model or of the task
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from agentrl.memory.footprint import most_tokens
from agentrl.memory.regime import GIB, Regime
from agentrl.memory.shape import Shape

ASLEEP = 2 * GIB
"""What an engine holds while it sleeps: context and graphs. 0.8 to 2.4 GiB were reported."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A change that makes it fit."""

    change: str
    """The flags of `agentrl plan`."""
    regime: Regime
    tokens: int
    """The largest micro-batch that then fits."""


Change = Callable[[Regime], Regime]

CHANGES: tuple[tuple[str, Change], ...] = (
    ("--engine asleep", lambda r: replace(r, engine_bytes=min(r.engine_bytes, ASLEEP))),
    (
        "--checkpointing layers",
        lambda r: replace(r, checkpointing="layers") if r.checkpointing == "none" else r,
    ),
    ("--dtype bfloat16", lambda r: replace(r, dtype="bfloat16")),
    (
        "--optimizer adamw8bit",
        lambda r: replace(r, optimizer="adamw8bit") if r.optimizer == "adamw" else r,
    ),
    ("--optimizer offloaded", lambda r: replace(r, optimizer="offloaded")),
    ("--checkpointing offload", lambda r: replace(r, checkpointing="offload")),
    ("--mode lora", lambda r: replace(r, mode="lora") if r.mode == "full" else r),
    ("--mode qlora", lambda r: replace(r, mode="qlora") if r.shards == 1 else r),
    *((f"--shards {n}", lambda r, n=n: _split(r, n)) for n in (2, 4, 8)),
)
"""Flags to what they change, cheapest first: time, then exactness, then machines."""


def ladder(shape: Shape, regime: Regime, memory_bytes: int, tokens: int) -> tuple[Rung, ...]:
    """Every single change after which `tokens` fit; where none suffices, the first sum of them."""

    def rung(flags: str, changed: Regime) -> Rung | None:
        most = most_tokens(shape, changed, memory_bytes)
        return Rung(flags, changed, most) if most >= tokens else None

    alone = [rung(*one) for one in _alone(regime)]
    found = tuple(one for one in alone if one is not None)
    if found:
        return found
    # A 4-bit base is not split, so one sum ends with it and the other with more devices.
    for left_out in ("--shards", "--mode qlora"):
        together = (rung(*one) for one in _together(regime, left_out))
        first = next((one for one in together if one is not None), None)
        if first is not None:
            return (first,)
    return ()


def _alone(regime: Regime) -> Iterator[tuple[str, Regime]]:
    for flags, change in CHANGES:
        changed = change(regime)
        if changed != regime:
            yield flags, changed


def _together(regime: Regime, left_out: str) -> Iterator[tuple[str, Regime]]:
    """The first change, the first two, and so on; a later one of a flag replaces an earlier."""
    flags: dict[str, str] = {}
    for words, change in CHANGES:
        changed = change(regime)
        if changed != regime and not words.startswith(left_out):
            name, _, value = words.partition(" ")
            flags[name], regime = value, changed
            yield " ".join(f"{n} {v}" for n, v in flags.items()), regime


def _split(regime: Regime, shards: int) -> Regime:
    larger = shards > regime.shards and regime.mode != "qlora"
    return replace(regime, shards=shards) if larger else regime
