"""Accelerators, threads, and how a policy's code is held.

In    torch; what the environment variables and the kernel say
Out   findings
Not   speed; and no setting of a device is changed
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentrl.doctor.finding import Finding
from agentrl.errors import SandboxUnavailable
from agentrl.memory.size import in_words
from agentrl.sandbox.strictest import WAYS_OUT

FREE = 0.5
"""Share of a device's memory below which somebody else has it."""
THREADS = "OMP_NUM_THREADS"
_HELD = {
    3: "level 3: a policy's code has folders, processes and network of its own; no attack got out",
    2: "level 2: a policy's code is held, and no attack got out; level 3 would need namespaces",
}


def of_accelerators(torch: Any, has_driver: bool) -> Iterator[Finding]:
    """Each device, by computing something on it.

    Args:
        torch: The module.
        has_driver: Whether the driver of an NVIDIA GPU is loaded.
    """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        there = torch.cuda.is_available()
    if there:
        for number in range(torch.cuda.device_count()):
            yield _device(torch, number)
    elif has_driver:
        why = str(told[0].message).partition("\n")[0] if told else "no device can be used"
        why = why if torch.version.cuda else f"torch {torch.__version__} was built without CUDA"
        fix = "Install a torch whose CUDA fits the driver; nvidia-smi shows the newest it can."
        yield Finding("accelerator", "missing", f"an NVIDIA driver is loaded, but {why}", fix)
    else:
        said = "none: models are played and trained on the CPU"
        fix = "That is enough for --model tiny; for larger models use a machine with a GPU."
        yield Finding("accelerator", "missing", said, fix)


def _device(torch: Any, number: int) -> Finding:
    name = f"accelerator {number}"
    try:
        kind = torch.cuda.get_device_name(number)
        free, total = torch.cuda.mem_get_info(number)
        right = float(torch.ones(8, device=f"cuda:{number}").sum()) == 8
    except RuntimeError as error:
        said = f"can't be used ({str(error).partition(chr(10))[0][:200]})"
        return Finding(name, "missing", said, "Choose others: CUDA_VISIBLE_DEVICES=1,2")
    said = f"{kind}, {in_words(free)} free of {in_words(total)}"
    if not right:
        return Finding(name, "missing", f"{kind} adds up wrongly", "Do not use it: it is broken.")
    if free < FREE * total:
        fix = "Stop what uses it (nvidia-smi shows what), or choose others: CUDA_VISIBLE_DEVICES"
        return Finding(name, "warn", said, fix)
    return Finding(name, "ok", said)


def of_threads(environ: Mapping[str, str], cores: int) -> Iterator[Finding]:
    """How many threads a run computes with: one a core, unless somebody said otherwise."""
    told = environ.get(THREADS, "")
    first = told.partition(",")[0].strip()
    count = int(first) if first.isdecimal() else cores
    said = f"{count} for {cores} core{'s' * (cores != 1)}"
    said += f", by {THREADS}={told}" if told else ""
    fix = f"Unset {THREADS}, or set it to {cores}; runs repeat to the bit with the same number."
    right = count == cores and (first.isdecimal() or not told)
    yield Finding("threads", "ok" if right else "warn", said, "" if right else fix)


def of_sandbox(level: Callable[[], int]) -> Iterator[Finding]:
    """How strictly a policy's code is held here, by attacks from inside."""
    try:
        found = level()
    except SandboxUnavailable as error:
        said = str(error).removesuffix(WAYS_OUT).removeprefix("sandbox: ").strip()
        said += " Environments that run code, such as code_math, can't be played."
        yield Finding("sandbox", "missing", said, WAYS_OUT)
    else:
        yield Finding("sandbox", "ok", _HELD[found])
