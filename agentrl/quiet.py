"""Variables that libraries read while they load: threads, memory, chatter.

In    the environment variables of this process
Out   the same with defaults added; what the user has set stays
Not   settings of a run: none of these changes a result
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import NoReturn

Environ = MutableMapping[str, str]

LIBRARIES = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # Models are folders here; without this a look at a folder may ask the network first.
    "HF_HUB_OFFLINE": "1",
    # Rollouts run in threads, where a forked tokenizer would only warn and go on alone.
    "TOKENIZERS_PARALLELISM": "false",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TRANSFORMERS_VERBOSITY": "error",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}

MALLOC = {
    "MALLOC_ARENA_MAX": "2",
    # Big tensors come from the system and go back to it; else the peak stays for ever.
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    "MALLOC_TRIM_THRESHOLD_": "1048576",
}


def prepare_libraries(environ: Environ) -> None:
    """Fewer words from libraries, and none to their makers."""
    _add(environ, LIBRARIES)


def prepare_cpu(environ: Environ, cores: int) -> bool:
    """Defaults for computing on a CPU; true where only a new process would read them all."""
    # Threads that wait for work must not spin: the environment's threads need the cores.
    _add(environ, {"OMP_NUM_THREADS": str(cores), "OMP_WAIT_POLICY": "passive"})
    return _add(environ, MALLOC) and _has_glibc()


def restart(environ: Environ) -> NoReturn:
    """Begin this process again with new variables; the memory allocator reads its own but once."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], dict(environ))


def can_restart() -> bool:
    """Whether this process is the agentrl command: any other would run twice."""
    return Path(sys.argv[0]).stem == "agentrl" or Path(sys.argv[0]).parent.name == "agentrl"


def _add(environ: Environ, defaults: dict[str, str]) -> bool:
    missing = {name: value for name, value in defaults.items() if name not in environ}
    environ.update(missing)
    return bool(missing)


def _has_glibc() -> bool:
    names = getattr(os, "confstr_names", {})
    return "CS_GNU_LIBC_VERSION" in names and "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")
