"""Schedule: whether turns are computed in waves, or each as soon as it can be.

In    an engine's name, what was asked for
Out   waves or stream; a refusal of what the engine, or the schedule, cannot do
Not   the schedule itself: group.py has episodes play, engines form the batches

In waves a batch is the next turn of every episode that is played, in a fixed order: the same
numbers on every run. In a stream a turn is asked for the moment its own tools have returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from agentrl.errors import UsageError

Asked = Literal["auto", "waves", "stream"]
Schedule = Literal["waves", "stream"]

_BOTH: tuple[Schedule, ...] = ("waves", "stream")
_OWN: tuple[Schedule, ...] = ("stream",)
KNOWN: Final[Mapping[str, tuple[Schedule, ...]]] = MappingProxyType(
    {"transformers": _BOTH, "vllm": _OWN, "vllm-server": _OWN, "scripted": _OWN}
)
"""What each engine can do; `auto` is the first."""


def schedule_of(engine: str, asked: Asked) -> Schedule:
    """What an engine does where this was asked for.

    Raises:
        UsageError: it forms batches of its own.
    """
    known = KNOWN[engine]
    if asked == "auto":
        return known[0]
    if asked not in known:
        raise UsageError(
            f"--rollout.schedule {asked}: the engine {engine} forms its own batches, so no order "
            "of turns makes it repeat itself. Leave it out, or use --engine transformers."
        )
    return asked


def refuse_in_waves(*, oversample: int, requests: int) -> None:
    """Refuse settings that have no meaning where all episodes take turns together.

    Raises:
        UsageError: one of them was given.
    """
    if oversample:
        raise UsageError(
            f"--rollout.oversample {oversample}: in waves every turn waits for the slowest tool, "
            "so no episode is ahead of another, and which ones to drop would be a matter of "
            "time. Leave it out, or add --rollout.schedule stream."
        )
    if requests:
        raise UsageError(
            f"--rollout.requests_at_once {requests}: in waves all episodes ask together. "
            "Lower --engine.max_live, or add --rollout.schedule stream."
        )
