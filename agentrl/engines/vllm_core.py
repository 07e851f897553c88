"""A vLLM engine as a driver drives it: requests in, outputs out, weights replaced with proof.

In    vLLM's engine and its classes; requests; named tensors
Out   Completion of what can be trained on; a check of every hand-over
Not   starting vLLM, nor its thread: vllm.py does both
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

from agentrl.engines import fingerprint
from agentrl.engines.fingerprint import Fingerprint
from agentrl.errors import EngineError, WeightSyncError, blame
from agentrl.policy import Completion, Request, WeightSource


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

    def __init__(self, vllm: Any, llm: Any, model: Model, dtype: str, *, eager: bool) -> None:
        self._llm = llm
        self._engine = llm.llm_engine
        self._params = vllm.SamplingParams
        self._final = vllm.sampling_params.RequestOutputKind.FINAL_ONLY
        self._model = model
        self._dtype = dtype
        self._eager = eager
        self._version = 0
        self._doubt: str | None = None
        self._last: Fingerprint | None = None
        modules = llm.apply_model(lambda model: {name for name, _ in model.named_modules()})[0]
        # vLLM packs a tied output on its own and leaves it old if only its twin is handed over.
        self._copies = {of: to for to, of in model.tied.items() if to.rpartition(".")[0] in modules}
        self.probe = self._probe(min(fingerprint.LENGTH, model.context - 1))

    def add(self, key: str, request: Request) -> None:
        """Begin a request."""
        if self._doubt is not None:
            raise WeightSyncError(self._doubt)
        params = self._params(
            temperature=request.sampling.temperature,
            seed=request.seed % 2**63,
            max_tokens=request.max_tokens,
            stop_token_ids=list(request.stop_token_ids),
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
            output_kind=self._final,
        )
        self._add(key, request.prompt_ids, params)

    def step(self) -> list[tuple[str, Any]]:
        """Sample one token for every running request."""
        # On a CPU the compiled functions of vLLM's sampler gain nothing and need a C++ compiler.
        stance = torch.compiler.set_stance("force_eager") if self._eager else nullcontext()
        with stance:
            outputs = self._engine.step()
        return [(o.request_id, (self._version, o)) for o in outputs if o.finished]

    def drop(self, key: str) -> None:
        """Abort a request."""
        self._engine.abort_request([key])

    def stop(self) -> None:
        """Free the model and its cache."""
        self._engine.engine_core.shutdown()
        self._engine = self._llm = None

    def take(self, source: WeightSource, learner: Sequence[float], version: int) -> None:
        """Replace the weights; until that is proven, nothing is sampled."""
        self._doubt = (
            f"engine vllm: the hand-over of version {version} failed. Its weights are unknown; "
            "nothing is sampled before a hand-over succeeds."
        )
        items = _Items(source, self._copies)
        with blame(WeightSyncError, f"engine vllm, taking weights of version {version}"):
            self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(items)})
            if items.problem is not None:
                raise items.problem
        if missing := sorted(self._model.names - items.names):
            raise WeightSyncError(
                f"engine vllm, weights of version {version}: {len(missing)} tensors were not "
                f"handed over ({missing[0]}, ...). They would have stayed old."
            )
        if not self._engine.reset_prefix_cache():
            raise WeightSyncError("engine vllm: requests were running during a hand-over.")
        now = Fingerprint(version, learner, self._fingerprint())
        fingerprint.check(now, self._last, self._dtype)
        self._last, self._version, self._doubt = now, version, None

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
        """Output of one request while no other runs."""
        self._add("alone", ids, self._params(detokenize=False, output_kind=self._final, **params))
        while not (ended := self.step()):
            pass
        return ended[0][1][1]

    def _add(self, key: str, ids: Sequence[int], params: Any) -> None:
        self._engine.add_request(key, {"type": "token", "prompt_token_ids": list(ids)}, params)


def completion(request: Request, output: Any, version: int) -> Completion:
    """What vLLM gave, if it can be trained on.

    Raises:
        EngineError: it ended in another way, or log-probs are missing.
    """
    only = output.outputs[0]
    ids, reason = tuple(only.token_ids), only.finish_reason
    stopped = bool(ids) and ids[-1] in request.stop_token_ids
    if not ids or reason != ("stop" if stopped else "length"):
        raise EngineError(
            f"engine vllm, episode {request.session}: a turn of {len(ids)} tokens ended with "
            f"'{reason}', not with a stop token or its length."
        )
    if len(only.logprobs) != len(ids):
        raise EngineError(
            f"engine vllm, episode {request.session}: {len(ids)} tokens but "
            f"{len(only.logprobs)} log-probs."
        )
    logprobs = tuple(entry[i].logprob for i, entry in zip(ids, only.logprobs, strict=True))
    return Completion(ids, logprobs, "stop" if stopped else "length", version)


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
