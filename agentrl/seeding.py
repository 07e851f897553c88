"""A `gymnasium.Env` whose generator is made when it is first asked for.

In    seeds of `reset`
Out   `np_random` and `np_random_seed`, as gymnasium's own `reset` leaves them
Not   another stream: the generator is gymnasium's, it only comes later, or never

To make a generator takes longer than many an episode's own work, and few episodes ask for it.
"""

from __future__ import annotations

from typing import TypeVar

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")


class SeededLate(gymnasium.Env[ObsType, ActType]):
    """Keeps a seed until somebody draws."""

    _generator: np.random.Generator | None = None
    _due: int | None = None
    """The seed of a generator that is still to be made."""

    # Where gymnasium keeps its generator: its properties and its checker read it from there.
    @property
    def _np_random(self) -> np.random.Generator | None:
        if self._due is not None:
            self._generator, _ = np_random(self._due)
            self._due = None
        return self._generator

    @_np_random.setter
    def _np_random(self, value: np.random.Generator | None) -> None:
        self._generator, self._due = value, None

    def _reseed(self, seed: int | None) -> None:
        """What `gymnasium.Env.reset` does with a seed; one that it refuses is refused now."""
        if type(seed) is int and seed >= 0:
            self._due = self._np_random_seed = seed
        else:
            gymnasium.Env.reset(self, seed=seed)
