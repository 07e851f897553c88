"""A library that takes over the process while it starts is let do so, and then undone.

In    a block in which such a library starts
Out   generators, hooks, environment and modules as they were before
Not   threads, signal handlers, or anything that it changes later
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


@contextmanager
def out_of_sight(name: str) -> Iterator[None]:
    """Take a module that is loaded out of the list of modules meanwhile."""
    module = sys.modules.pop(name, None)
    try:
        yield
    finally:
        if module is not None:
            sys.modules[name] = module


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put back what vLLM, for one, changes in the whole process while it starts.

    It seeds the global generators, replaces `torch.set_num_threads` and `sys.excepthook`,
    preloads its libraries into every child process, and warns of its own deprecations.
    """
    kept = {name: os.environ.get(name) for name in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    set_num_threads: Any = torch.set_num_threads
    hook = sys.excepthook
    states = random.getstate(), np.random.get_state()
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_num_threads = set_num_threads
            sys.excepthook = hook
            for name, value in kept.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
