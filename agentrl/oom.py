"""Out of memory: which exceptions mean it, and what gives memory back.

In    an exception that something raised
Out   is_oom, free, words for messages; OutOfMemory: the same news without what it holds on to
Not   a decision: whether a step is tried again is its caller's
"""

from __future__ import annotations

import gc
from textwrap import shorten

import torch

from agentrl.errors import RunError
from agentrl.meter import peak_of_process

PHRASES = ("can't allocate memory", "out of memory", "bad_alloc", "ALLOC_FAILED")
"""How libraries say it in a plain RuntimeError: torch on CPU, CUDA, C++, cuBLAS and cuDNN."""


class OutOfMemory(RunError):
    """Memory ran out, here or on another rank.

    Unlike the exception that it stands for, it refers to no frame, and so to no tensor.
    """


def is_oom(error: BaseException) -> bool:
    """Whether less work at a time could have avoided it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError | OutOfMemory):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in PHRASES)


def free() -> None:
    """Give back what only cycles, caches and a backward pass that failed hold."""
    with torch.enable_grad():
        # The thread keeps the part of a graph that was not reached until its next pass.
        torch.zeros((), requires_grad=True).mul(2).backward()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def in_short(error: BaseException) -> str:
    """Kind and first line; torch writes pages."""
    line = str(error).strip().partition("\n")[0]
    return shorten(f"{type(error).__name__}: {line}", 180, placeholder=" ...")


def room(device: torch.device) -> str:
    """What a message says of a device's memory."""
    if device.type == "cuda":
        unused, total = torch.cuda.mem_get_info(device)
        return f"{_gib(total - unused)} of {_gib(total)} on {device} are taken without it"
    return f"the process has taken up to {_gib(peak_of_process())}"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
