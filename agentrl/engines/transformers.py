"""The transformers engine: samples with the learner's own module, or with a copy of it.

In    a causal language model with plain attention, requests of declared episodes
Out   completions that depend on the requests alone: the same on every run with the same threads
Not   the fastest engine on a GPU (vllm is), nor, without a copy, one for training meanwhile

Episodes play in waves: when each has asked for its next turn, all turns are computed as one
batch in the order (turn, task, member). Who asked first cannot change a bit. Or they play in a
stream: a request joins those that are being computed at their next token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from agentrl.engines.decode import Decoder, Draft
from agentrl.engines.driver import Driver
from agentrl.engines.forward import evaluating
from agentrl.engines.replica import replica_of, take
from agentrl.engines.stream import Said, Stream, completion
from agentrl.engines.wave import Session, Waves
from agentrl.errors import EngineError, WeightSyncError, blame
from agentrl.policy import Completion, Request, Sampling, WeightSource

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.05, torch.bfloat16: 0.25}
"""Mean difference in nats. Two right ways through a model in bfloat16 lie up to 0.1 apart; a
wrong position or a token too many costs several times as much."""
Scores = Callable[[Sequence[int]], Sequence[float]]
"""Log-prob of each id but the first, given those before it."""


class TransformersEngine:
    """Runs a policy in the process that trains it."""

    name = "transformers"

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_context: int,
        max_live: int = 256,
        cache_gib: float = 8.0,
        own_copy: bool = False,
        schedule: Literal["waves", "stream"] = "waves",
    ) -> None:
        """Take a model as it is and check that it can be sampled from.

        Args:
            model: The learner's module; it is never changed.
            max_context: Tokens of prompt and completion together.
            max_live: Episodes played at once.
            cache_gib: Memory for keys and values; a wave that needs more is computed in parts,
                in a stream a request waits until others have ended.
            own_copy: Sample from a copy of the weights that only `load` changes, so that the
                learner may train meanwhile; else the module is shared.
            schedule: Waves are repeatable to the bit; a stream waits for no slow tool.

        Raises:
            EngineError: it would not compute what the model does.
        """
        self._where = f"transformers engine, {type(model).__name__}"
        _refuse_layers(self._where, model)
        self.wave = schedule == "waves"
        self.inflight = own_copy and not self.wave
        self._own_copy = own_copy
        self._unproved = False
        self._coming = 0
        model = replica_of(model) if own_copy else model
        self._model = model
        config = model.config.get_text_config()
        self.max_context = min(max_context, config.max_position_embeddings)
        self.max_live = max_live
        self.version = 0
        self._vocabulary = config.vocab_size
        self._decoder = Decoder(model, int(cache_gib * 2**30))
        self._waves = Waves(self._answer)
        self._stream = Stream(self._decoder, self._where, self._refuse_unproved)
        self._compare(self._plain_scores, EngineError, "a plain forward pass", 2)
        self._driver = Driver(self._stream, self.name)

    @property
    def forwarded_tokens(self) -> int:
        """Tokens that went through the model so far; what was reused is not counted."""
        return self._decoder.forward.tokens

    @contextmanager
    def episodes(self, sessions: Sequence[Session]) -> Iterator[None]:
        """Declare the episodes that will be played together."""
        with self._waves.episodes(sessions) if self.wave else self._expected(len(sessions)):
            try:
                yield
            finally:
                # Also waits for an abandoned wave: after the cohort nothing uses the model.
                self._decoder.abandoned = self.wave
                self._driver.call(lambda: self._release(sessions), soon=True).result()

    @contextmanager
    def _expected(self, sessions: int) -> Iterator[None]:
        self._coming += sessions
        self._decoder.cache.expected = min(self._coming, self.max_live)
        try:
            yield
        finally:
            self._coming -= sessions
            self._decoder.cache.expected = min(self._coming, self.max_live)

    def finish(self, session: Session) -> None:
        """An episode will ask no more."""
        if self.wave:
            self._waves.finish(session)
        else:
            self._driver.call(lambda: self._stream.finish({session}), soon=True)

    async def generate(self, request: Request) -> Completion:
        """Sample one turn.

        Raises:
            EngineError: this request is impossible, or what it was computed with failed.
        """
        self._refuse(request)
        if self.wave:
            return await self._waves.ask(request)
        said: Said = await asyncio.wrap_future(self._driver.ask(request))
        if isinstance(said, EngineError):
            raise said
        return said

    async def load(self, source: WeightSource, version: int) -> None:
        """Forget what was computed with other weights; prove that the source's are in use.

        It waits for what is being computed; in a stream with weights of its own it comes between
        two tokens, and completions say where.

        Raises:
            WeightSyncError: the source's log-probs are not those of this module. One that has
                weights of its own then answers nothing until a hand-over succeeds.
        """
        call = self._driver.call(lambda: self._take(source, version), soon=self.inflight)
        await asyncio.wrap_future(call)

    async def sleep(self) -> None:
        """Its weights are the learner's; what it holds beside them ends with each cohort."""

    async def wake(self) -> None:
        """Nothing was given back."""

    def counters(self) -> Mapping[str, float]:
        """Tokens that went through the model."""
        return {"forwarded_tokens": self.forwarded_tokens}

    async def close(self) -> None:
        """Free what it holds."""
        await asyncio.to_thread(self._driver.close)

    async def _answer(self, requests: Sequence[Request]) -> list[Completion]:
        return await asyncio.wrap_future(self._driver.call(lambda: self._run(requests)))

    def _take(self, source: WeightSource, version: int) -> None:
        self._unproved = self._own_copy
        if self._own_copy:
            with blame(WeightSyncError, f"{self._where}, copying weights of version {version}"):
                take(self._model, source)
        self._decoder.renew(version)
        self._compare(source.fingerprint, WeightSyncError, "the new weights", 1)
        self.version, self._unproved = version, False

    def _release(self, sessions: Sequence[Session]) -> None:
        if self.wave:
            self._decoder.forget()
            self._decoder.abandoned = False
        else:
            self._stream.finish(set(sessions))

    def _refuse_unproved(self) -> None:
        if self._unproved:
            raise WeightSyncError(
                f"{self._where}: the last hand-over of weights failed. What it holds is unknown; "
                "nothing is sampled from it before one succeeds."
            )

    def _run(self, requests: Sequence[Request]) -> list[Completion]:
        self._refuse_unproved()
        with blame(EngineError, f"{self._where}, wave of {len(requests)}"):
            drafts = self._decoder.run(requests)
        return [completion(draft) for draft in drafts]

    def _refuse(self, request: Request) -> None:
        asked = len(request.prompt_ids) + request.max_tokens
        if asked > self.max_context:
            raise EngineError(
                f"episode {request.session}: {len(request.prompt_ids)} prompt tokens and up to "
                f"{request.max_tokens} new ones do not fit a context of {self.max_context}. "
                "Raise --rollout.max_context, or lower --rollout.max_turn_tokens."
            )
        if not request.prompt_ids or request.max_tokens < 1:
            raise EngineError(
                f"episode {request.session}: an empty prompt, or no token to sample. "
                "A turn needs one of each."
            )
        odd = next((i for i in request.prompt_ids if not 0 <= i < self._vocabulary), None)
        if odd is not None:
            raise EngineError(
                f"episode {request.session}: id {odd} is outside the model's vocabulary of "
                f"{self._vocabulary}. Tokenizer and model do not belong together."
            )

    def _compare(self, scores: Scores, kind: type[EngineError], with_what: str, turns: int) -> None:
        """Play three small episodes and compare every log-prob."""
        with blame(kind, f"{self._where}, compared with {with_what}"):
            drafts = _rehearse(Decoder(self._model, 1 << 30), self._vocabulary, turns)
            with evaluating(self._model):
                gap = float(np.mean([_gap(scores, draft) for draft in drafts]))
        if not gap <= TOLERANCE.get(self._model.dtype, 0.0):
            raise kind(
                f"{self._where}: log-probs of sampled tokens are {gap:.2g} nats off those of "
                f"{with_what}. Training on them would be wrong. Use --engine vllm."
            )

    @torch.no_grad()
    def _plain_scores(self, ids: Sequence[int]) -> list[float]:
        row = torch.tensor([ids], device=self._model.device)
        logits = self._model(input_ids=row, use_cache=False).logits[0, :-1].float()
        scores: list[float] = logits.log_softmax(-1).gather(1, row[0, 1:, None])[:, 0].tolist()
        return scores


def _refuse_layers(where: str, model: PreTrainedModel) -> None:
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or ()
    odd = sorted({kind for kind in kinds if kind != "full_attention"})
    if odd:
        raise EngineError(
            f"{where}: layers of type {', '.join(odd)}. This engine keeps keys and values of full "
            "attention only. Use --engine vllm."
        )


def _rehearse(decoder: Decoder, vocabulary: int, turns: int) -> list[Draft]:
    """Two members of a group and a stranger of another length, some turns each."""
    ids = np.random.default_rng(0).integers(vocabulary, size=16).tolist()
    prompts = {(0, 0): ids[:9], (0, 1): ids[:9], (1, 0): ids[9:]}
    drafts: list[Draft] = []
    for turn in range(turns):
        wave = [
            Request(tuple(prompt), 4, (), Sampling(), seed, session, turn)
            for seed, (session, prompt) in enumerate(prompts.items())
        ]
        played = decoder.run(wave)
        prompts = {d.request.session: [*d.request.prompt_ids, *d.ids, *ids[:2]] for d in played}
        drafts += played
    return drafts


def _gap(scores: Scores, draft: Draft) -> float:
    """Mean difference in nats between a draft's log-probs and what another says of them."""
    other = scores(draft.request.prompt_ids + tuple(draft.ids))[-len(draft.ids) :]
    return float(np.abs(np.subtract(other, draft.logprobs)).mean())
