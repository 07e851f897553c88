"""A vLLM engine as a driver drives it: requests in, outputs out, weights replaced with proof.

In    vLLM's engine and its classes; requests; named tensors
Out   Completion of what can be trained on; a check of every hand-over
Not   starting vLLM, nor its thread: vllm.py does both
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

from agentrl.engines import fingerprint
from agentrl.engines.fingerprint import Fingerprint
from agentrl.errors import EngineError, WeightSyncError, blame
from agentrl.policy import Completion, Request, WeightSource

WEIGHTS, CACHE = "weights", "kv_cache"
"""What wakes, in this order."""
KEEPS, FORGETS = 1, 2
"""Levels of sleep: with a copy of the weights on the host, or without."""
COUNTED = ("requests", "prompt_tokens", "cached_tokens", "sampled_tokens")
ALONE = "alone"


class Engine(Protocol):
    """The running vLLM, as vllm_api.py offers it."""

    cpu: bool

    def modules(self) -> set[str]:
        """Names of the model's modules."""

    def add(self, key: str, ids: Sequence[int], **params: Any) -> None:
        """Begin a request."""

    def step(self) -> list[Any]:
        """Sample one token; outputs of requests that ended."""

    def drop(self, key: str) -> None:
        """Abort a request."""

    def reload(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take weights."""

    def forget(self) -> None:
        """Make nothing of what was computed so far be used again."""

    def label(self, version: int) -> None:
        """Name the weights that tokens come from, from now on."""

    def alone(self) -> AbstractContextManager[None]:
        """Hold back every request that waits."""

    def sleep(self, level: int) -> None:
        """Give memory back."""

    def wake(self, part: str) -> None:
        """Take a part of it again."""

    def stop(self) -> None:
        """Free everything."""


@dataclass(frozen=True, slots=True)
class Model:
    """What must be known of a model before vLLM reads it."""

    vocabulary: int
    context: int
    names: frozenset[str]
    """Tensors that a hand-over has to bring; empty where the folder doesn't say."""
    tied: Mapping[str, str]
    """Tensors that are another one under a second name, and that one's name."""


def inspect(folder: Path, max_context: int) -> Model:
    """Read a folder's config and the names of its tensors."""
    config: Any = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    positions = getattr(config, "max_position_embeddings", None) or max_context
    with torch.device("meta"):
        tied = dict(AutoModelForCausalLM.from_config(config).all_tied_weights_keys)
    names = frozenset(_stored(folder) - tied.keys())
    return Model(config.vocab_size, min(max_context, positions), names, tied)


def _stored(folder: Path) -> set[str]:
    """Names of the tensors in a folder's safetensors files."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return set(json.loads(index.read_text())["weight_map"])
    single = folder / "model.safetensors"
    if not single.is_file():
        return set()
    with safe_open(single, framework="pt") as file:
        return set(file.keys())


class Core:
    """All that is done to vLLM once it runs; only the driver's thread does it."""

    def __init__(self, vllm: Engine, model: Model, dtype: str, *, sleep_level: int = 0) -> None:
        """Take over a vLLM that has just started: its weights are version 0.

        Args:
            vllm: What `vllm_api` started.
            model: What was read in the folder.
            dtype: What vLLM computes in.
            sleep_level: 1 keeps the weights on the host during sleep, 2 forgets them, 0: no sleep.
        """
        self._vllm = vllm
        self._model = model
        self._dtype = dtype
        self._sleep_level = sleep_level
        self._asleep: tuple[str, ...] = ()
        self._doubt: str | None = None
        self._last: Fingerprint | None = None
        modules = vllm.modules()
        # vLLM packs a tied output on its own and leaves it old if only its twin is handed over.
        self._copies = {of: to for to, of in model.tied.items() if to.rpartition(".")[0] in modules}
        vllm.label(0)
        self.probe = self._probe(min(fingerprint.LENGTH, model.context - 1))
        self.counts = dict.fromkeys(COUNTED, 0.0)
        """So far, by the last part of a metric's name; others may read it at any time."""

    def add(self, key: str, request: Request) -> None:
        """Begin a request."""
        self._rise(CACHE)
        if self._doubt is not None:
            raise WeightSyncError(self._doubt)
        self._vllm.add(
            key,
            request.prompt_ids,
            temperature=request.sampling.temperature,
            seed=request.seed % 2**63,
            max_tokens=request.max_tokens,
            stop_token_ids=list(request.stop_token_ids),
            ignore_eos=True,
            logprobs=0,
        )

    def step(self) -> list[tuple[str, Any]]:
        """Sample one token for every running request."""
        ended = self._step()
        for output in ended:
            self._count(output)
        return [(output.request_id, output) for output in ended]

    def drop(self, key: str) -> None:
        """Abort a request."""
        self._vllm.drop(key)

    def stop(self) -> None:
        """Free the model and its cache."""
        self._vllm.stop()

    def take(self, source: WeightSource, learner: Sequence[float], version: int) -> None:
        """Replace the weights, between two steps; until that is proven, nothing is sampled.

        What is running goes on with the new weights: it reads again what it has so far, so that
        its next token's log-prob is that of the new weights alone.
        """
        self._doubt = (
            f"engine vllm: the hand-over of version {version} failed. Its weights are unknown; "
            "nothing is sampled before a hand-over succeeds."
        )
        items = _Items(source, self._copies)
        with blame(WeightSyncError, f"engine vllm, taking weights of version {version}"):
            self._rise(WEIGHTS)
            self._vllm.reload(items)
            if items.problem is not None:
                raise items.problem
            self._refuse_missing(items.names, version)
            self._rise(CACHE)
            self._vllm.forget()
            now = Fingerprint(version, learner, self._fingerprint())
        fingerprint.check(now, self._last, self._dtype)
        self._vllm.label(version)
        self._last, self._doubt = now, None

    def sleep(self) -> None:
        """Give memory back; where weights are lost with it, only a hand-over brings them again."""
        if not self._sleep_level or self._asleep:
            return
        if self._sleep_level == FORGETS:
            self._doubt = (
                "engine vllm: it slept and forgot its weights. "
                "Nothing is sampled before a hand-over succeeds."
            )
        self._asleep = (WEIGHTS, CACHE)
        with blame(EngineError, "engine vllm, going to sleep"):
            self._vllm.sleep(self._sleep_level)

    def wake(self) -> None:
        """Take the weights' memory; the cache's follows with a hand-over, or a request."""
        self._rise(WEIGHTS)

    def _rise(self, part: str) -> None:
        """Wake up to and with a part, in their order; after a failure nothing is sampled."""
        while part in self._asleep:
            first, *rest = self._asleep
            doubt, self._doubt = self._doubt, f"engine vllm: it could not wake its {first}."
            with blame(EngineError, f"engine vllm, waking its {first}"):
                self._vllm.wake(first)
                if not rest:
                    self._vllm.forget()
            self._asleep, self._doubt = tuple(rest), doubt

    def _refuse_missing(self, names: Set[str], version: int) -> None:
        if missing := sorted(self._model.names - names):
            raise WeightSyncError(
                f"engine vllm, weights of version {version}: {len(missing)} tensors were not "
                f"handed over ({missing[0]}, ...). They would have stayed old."
            )

    def _probe(self, length: int) -> tuple[int, ...]:
        """Ids that the policy itself finds likely: rounding moves those the least."""
        output = self._alone((0,), temperature=1.0, seed=0, max_tokens=length - 1, ignore_eos=True)
        return (0, *output.outputs[0].token_ids)

    def _fingerprint(self) -> list[float]:
        # vLLM never answers a request for the log-probs of its prompt from the prefix cache.
        found = self._alone(self.probe, temperature=0.0, max_tokens=1, prompt_logprobs=0)
        entries = zip(self.probe[1:], found.prompt_logprobs[1:], strict=True)
        return [entry[i].logprob for i, entry in entries]

    def _alone(self, ids: Sequence[int], **params: Any) -> Any:
        """Output of one request, while those that wait are held back.

        Nothing may be sampled with weights that are not proven, and a batch of another size
        rounds otherwise: a fingerprint beside others would move where no weight did.
        """
        ended: list[Any] = []
        with self._vllm.alone():
            self._vllm.add(ALONE, ids, **params)
            try:
                while not ended:
                    ended = self._step()
            finally:
                if not ended:
                    self._vllm.drop(ALONE)
        return ended[0]

    def _step(self) -> list[Any]:
        # On a CPU the compiled functions of vLLM's sampler gain nothing and need a C++ compiler.
        stance = torch.compiler.set_stance("force_eager") if self._vllm.cpu else nullcontext()
        with stance:
            return self._vllm.step()

    def _count(self, output: Any) -> None:
        asked = len(output.prompt_token_ids)
        sampled = sum(len(one.token_ids) for one in output.outputs)
        more = (1, asked, output.num_cached_tokens or 0, sampled)
        for name, number in zip(COUNTED, more, strict=True):
            self.counts[name] += number


def completion(request: Request, output: Any) -> Completion:
    """What vLLM gave, if it can be trained on.

    Raises:
        EngineError: it ended in another way, log-probs are missing, or nobody knows which
            weights its tokens came from.
    """
    only = output.outputs[0]
    ids, reason = tuple(only.token_ids), only.finish_reason
    where = f"engine vllm, episode {request.session}"
    stopped = bool(ids) and ids[-1] in request.stop_token_ids
    if not ids or reason != ("stop" if stopped else "length"):
        raise EngineError(
            f"{where}: a turn of {len(ids)} tokens ended with "
            f"'{reason}', not with a stop token or its length."
        )
    found = only.logprobs or ()
    if len(found) != len(ids):
        raise EngineError(f"{where}: {len(ids)} tokens but {len(found)} log-probs.")
    logprobs = tuple(entry[i].logprob for i, entry in zip(ids, found, strict=True))
    (_, version), *changes = _versions(where, only.weight_versions, len(ids))
    return Completion(ids, logprobs, "stop" if stopped else "length", version, tuple(changes))


def _versions(where: str, spans: Sequence[Any] | None, tokens: int) -> list[tuple[int, int]]:
    """(index of the first token, version) of each stretch; together they are all tokens."""
    known = list(spans or ())
    ends = [0, *(span.end for span in known)]
    if [*(span.start for span in known), tokens] != ends:
        raise EngineError(f"{where}: its tokens' weights are not known: {known} of {tokens}.")
    return [(span.start, int(span.version)) for span in known]


class _Items:
    """A source's tensors on their way, and what is known of them afterwards."""

    def __init__(self, source: WeightSource, copies: Mapping[str, str]) -> None:
        self._source = source
        self._copies = copies
        self.names: set[str] = set()
        self.problem: Exception | None = None

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Hand on what comes. A source that breaks seems to end: vLLM can't be interrupted."""
        try:
            for name, tensor in self._source.items():
                self.names.add(name)
                yield name, tensor
                if name in self._copies:
                    yield self._copies[name], tensor
        except Exception as error:
            self.problem = error
