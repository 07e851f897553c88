"""Several copies of an environment as gymnasium's vector environment.

In    an environment by name, how many, its options
Out   a gymnasium vector environment whose observations are whole messages
Not   needed for training; nor shared memory, which pads text and breaks on what is not ASCII
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from agentrl import registry
from agentrl.env import ToolEnv
from agentrl.errors import UsageError

Mode = Literal["sync", "async"]
MODES = ("sync", "async")


def make_vec(
    name: str, n: int, *, vectorization_mode: Mode = "sync", **options: Any
) -> VectorEnv[Any, Any, Any]:
    """Several copies of an environment, stepped together.

    Observations are tuples of message lists, one a copy; actions are sequences of texts or turns.

    Args:
        name: As behind `--env`.
        n: How many copies.
        vectorization_mode: sync plays them one after the other in this process, async each in a
            process of its own, which finds the environment by its name.
        options: Keyword arguments of the environment.

    Raises:
        UsageError: there is no such environment, option or mode, or n is below 1.
    """
    if n < 1:
        raise UsageError(f"make_vec: n is {n}. Ask for 1 copy or more.")
    if vectorization_mode not in MODES:
        raise UsageError(
            f"make_vec: vectorization_mode is {vectorization_mode!r}. There are sync and async."
        )
    registry.make(name, **options).close()
    maker = partial(registry.make, registry.address(name), **options)
    return vectorised([maker] * n, vectorization_mode)


def vectorised(
    makers: Sequence[Callable[[], ToolEnv]], mode: Mode = "sync"
) -> VectorEnv[Any, Any, Any]:
    """The vector environment of these; in other processes they are made anew."""
    if mode == "sync":
        return SyncVectorEnv(list(makers))
    return AsyncVectorEnv(list(makers), shared_memory=False, context="spawn")
