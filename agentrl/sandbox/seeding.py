"""Global generators in a fixed state: the same code gives the same output.

In    the fork server before its imports, then each child
Out   `random`, and numpy's global generator whenever it is imported, begin with seed 0
Not   all chance: `secrets`, `os.urandom`, and generators made without a seed stay what they are
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_NUMPY = "numpy.random"


def install() -> None:
    """Have numpy's global generator seeded when it is imported, here or in a child."""
    sys.meta_path.insert(0, _Seeding())


def reseed() -> None:
    """Seed `random`, which a fork has given a state of its own."""
    random.seed(0)


class _Seeding:
    """A finder that finds one module as the usual one does, and seeds it once it is there."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _NUMPY:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run: Any = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                module.__dict__["seed"](0)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
