"""The scripted engine: says what a script says, so that everything around it can be tested.

In    a script: what to say in a turn of an episode, as text or as ids
Out   completions as an engine gives them; a record of what it was asked
Not   a policy: log-probs are one constant, weights are taken and ignored
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from agentrl.errors import EngineError
from agentrl.message import FinishReason
from agentrl.policy import Completion, Request, WeightSource

Session = tuple[int, int]
Words = str | Sequence[int]
Script = Mapping[tuple[Session, int], Words] | Callable[[Session, int], Words]
"""(session, turn) to words: text is encoded and ended with a stop token, ids are said as given."""


class Encoder(Protocol):
    """The one thing that is asked of a tokenizer."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of a text."""
        ...


class ScriptedEngine:
    """Plays a script and remembers its requests."""

    name = "scripted"
    wave = False

    def __init__(
        self,
        tokenizer: Encoder,
        script: Script,
        *,
        logprob: float | None = -1.0,
        finish_reason: FinishReason = "stop",
        max_context: int = 8192,
        max_live: int = 256,
    ) -> None:
        """Take a script.

        Args:
            tokenizer: Encodes text of the script.
            script: What is said.
            logprob: Log-prob of every token; None gives none, as some servers do.
            finish_reason: `length` says the words without a stop token, as if cut.
            max_context: Tokens of prompt and completion together.
            max_live: Episodes played at once.
        """
        self._tokenizer = tokenizer
        self._script = script
        self._logprob = logprob
        self._finish_reason = finish_reason
        self.max_context = max_context
        self.max_live = max_live
        self.version = 0
        self.requests: list[Request] = []
        """What was asked, in order of arrival."""
        self.finished: list[Session] = []
        """Episodes that said they are done, in that order."""

    @contextmanager
    def episodes(self, sessions: Sequence[Session]) -> Iterator[None]:
        """Anyone may ask at any time: nothing to prepare."""
        yield

    def finish(self, session: Session) -> None:
        """Remember that an episode is done."""
        self.finished.append(session)

    async def generate(self, request: Request) -> Completion:
        """Say the words of the script, cut to the tokens that are allowed."""
        self.requests.append(request)
        ids = self._ids(request)[: request.max_tokens]
        logprobs = None if self._logprob is None else (self._logprob,) * len(ids)
        stopped = ids[-1] in request.stop_token_ids
        return Completion(ids, logprobs, "stop" if stopped else "length", self.version)

    async def load(self, source: WeightSource, version: int) -> None:
        """Take the version; a script has no weights."""
        self.version = version

    async def close(self) -> None:
        """Nothing is held."""

    def _ids(self, request: Request) -> tuple[int, ...]:
        words = self._words(request)
        if not isinstance(words, str):
            return tuple(words)
        ids = tuple(self._tokenizer.encode(words, add_special_tokens=False))
        return ids if self._finish_reason == "length" else (*ids, request.stop_token_ids[0])

    def _words(self, request: Request) -> Words:
        try:
            if callable(self._script):
                words = self._script(request.session, request.turn)
            else:
                words = self._script[request.session, request.turn]
        except LookupError:
            words = ()
        if not words:
            raise EngineError(
                f"script: nothing to say for episode {request.session}, turn {request.turn}. "
                "A turn has at least one token. Add words, or end the episode before."
            )
        return words
