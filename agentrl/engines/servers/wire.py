"""A turn as a server is asked for it, and its answer as it can be trained on.

In    Request; the JSON of an answer
Out   path and body; Answer with exactly one log-prob a token
Not   text: ids go in and come out
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl.engines.servers.client import UNREADABLE, ServerTrouble
from agentrl.engines.servers.facts import COMPLETIONS, GENERATE
from agentrl.errors import EngineError
from agentrl.message import FinishReason
from agentrl.policy import Request


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server sampled; the path tells whether it also told the weights."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    spans: Sequence[Mapping[str, Any]] | None
    """Stretches of tokens and the label of their weights; None: this path doesn't tell."""
    model: str
    prompt_tokens: int
    cached_tokens: int


def question(request: Request, model: str, path: str) -> dict[str, Any]:
    """The body that asks for a turn.

    Whatever a model's generation_config.json wishes, all tokens may be drawn.
    """
    return _body(
        path,
        request.prompt_ids,
        model,
        {
            "temperature": request.sampling.temperature,
            "seed": request.seed % 2**63,
            "max_tokens": request.max_tokens,
            "stop_token_ids": list(request.stop_token_ids),
            "ignore_eos": True,
            "logprobs": 0,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
        },
    )


def likelihood(ids: Sequence[int], model: str, path: str) -> dict[str, Any]:
    """The body that asks for the log-probs of given ids at temperature 1."""
    return _body(path, ids, model, {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 0})


def _body(path: str, ids: Sequence[int], model: str, params: dict[str, Any]) -> dict[str, Any]:
    if path == GENERATE:
        sampling = {**params, "detokenize": False}
        return {"model": model, "token_ids": list(ids), "sampling_params": sampling}
    return {"model": model, "prompt": list(ids), "return_token_ids": True, **params}


def answered(request: Request, path: str, told: Any) -> Answer:
    """What a server gave, if it can be trained on.

    Raises:
        ServerTrouble: it was aborted.
        EngineError: log-probs are missing, or it ended in a way that no turn ends.
    """
    try:
        answer = _read(path, told, request.stop_token_ids)
    except UNREADABLE as error:
        raise EngineError(f"{path}: its answer can't be read ({error!r})") from error
    ids, count = answer.ids, len(answer.ids)
    stopped = bool(ids) and ids[-1] in request.stop_token_ids
    if not (stopped or count == request.max_tokens):
        raise EngineError(
            f"{path}: a turn of {count} tokens ended without a stop token and without all of "
            f"its {request.max_tokens}"
        )
    return answer


def _read(path: str, told: Any, stops: Sequence[int]) -> Answer:
    choice, usage = told["choices"][0], told["usage"]
    ids = tuple(map(int, choice["token_ids"]))
    stopped = bool(ids) and ids[-1] in stops
    reason: FinishReason = "stop" if stopped else "length"
    if choice["finish_reason"] == "abort":
        raise ServerTrouble(f"{path}: the turn was aborted there after {len(ids)} tokens")
    if choice["finish_reason"] != reason:
        said = choice["finish_reason"]
        raise EngineError(
            f"{path}: a turn of {len(ids)} tokens ended with '{said}', not '{reason}'"
        )
    details = usage.get("prompt_tokens_details") or {}
    return Answer(
        ids=ids,
        logprobs=_logprobs(path, choice, ids),
        finish_reason=reason,
        spans=choice.get("weight_versions") if path == GENERATE else None,
        model=str(told["model"]),
        prompt_tokens=int(usage["prompt_tokens"]),
        cached_tokens=int(details.get("cached_tokens") or 0),
    )


def _logprobs(path: str, choice: Mapping[str, Any], ids: Sequence[int]) -> tuple[float, ...]:
    found = choice.get("logprobs")
    if not found:
        raise EngineError(f"{path}: {len(ids)} tokens came without log-probs")
    if path == COMPLETIONS:
        values = found["token_logprobs"]
    else:
        values = [entry["logprob"] for entry in found["content"]]
        if [entry["token_id"] for entry in found["content"]] != list(ids)[: len(values)]:
            raise EngineError(f"{path}: the log-probs are those of other tokens")
    if len(values) != len(ids):
        raise EngineError(f"{path}: {len(ids)} tokens but {len(values)} log-probs")
    if not all(isinstance(value, float | int) and math.isfinite(value) for value in values):
        raise EngineError(f"{path}: a log-prob is no number")
    return tuple(map(float, values))


def likelihoods(ids: Sequence[int], path: str, told: Any) -> list[float]:
    """Log-prob of each id of `ids[1:]`.

    Raises:
        EngineError: the answer holds others, or none.
    """
    try:
        found = told if path == GENERATE else told["choices"][0]
        entries = zip(ids[1:], found["prompt_logprobs"][1:], strict=True)
        return [float(entry[str(i)]["logprob"]) for i, entry in entries]
    except UNREADABLE as error:
        raise EngineError(f"{path}: it gave no log-probs of a prompt ({error!r})") from error
