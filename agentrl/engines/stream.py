"""Stream: requests join the batch that is being computed, and leave it when they have ended.

In    requests, from the driver's thread
Out   completions, each as soon as its own last token is drawn
Not   repeatable to the bit: who is computed together depends on time; draws do not
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from agentrl.engines.cache import Session
from agentrl.engines.decode import Decoder, Draft
from agentrl.errors import EngineError, blame
from agentrl.policy import Completion, Request

Said = Completion | EngineError


class Stream:
    """A decoder as a driver wants it; a failure ends those that were being answered, once."""

    def __init__(self, decoder: Decoder, where: str, check: Callable[[], None]) -> None:
        """Take a decoder that nobody else uses meanwhile.

        Args:
            decoder: What samples.
            where: Begins what is said of failures.
            check: Raises an EngineError where nothing may be sampled.
        """
        self._decoder = decoder
        self._where = where
        self._check = check
        self._over: list[tuple[str, Said]] = []
        self._waiting: dict[str, Request] = {}
        self._drafts: dict[str, Draft] = {}

    def add(self, key: str, request: Request) -> None:
        """It joins at the next token."""
        busy = {d.request.session for d in self._drafts.values()}
        busy |= {r.session for r in self._waiting.values()}
        if request.session in busy:
            raise EngineError(
                f"episode {request.session} asks twice at once. A turn has one request."
            )
        self._waiting[key] = request

    def step(self) -> list[tuple[str, Said]]:
        """One token for everyone, the first one for those that came meanwhile."""
        over, self._over = self._over, []
        try:
            with blame(EngineError, f"{self._where}, {len(self._drafts)} being answered"):
                self._check()
                self._join()
                if self._decoder.live:
                    self._decoder.step()
        except EngineError as error:
            return over + self._failed(error)
        ended = [key for key, draft in self._drafts.items() if draft.done]
        return over + [(key, completion(self._drafts.pop(key))) for key in ended]

    def drop(self, key: str) -> None:
        """Nobody waits for this one."""
        self._over = [(other, said) for other, said in self._over if other != key]
        self._waiting.pop(key, None)
        draft = self._drafts.pop(key, None)
        if draft is not None:
            self._decoder.drop(draft)

    def finish(self, sessions: Collection[Session]) -> None:
        """These episodes have ended: what is held of them is free, whoever still waits is told."""
        asked = {key: request.session for key, request in self._waiting.items()}
        asked |= {key: draft.request.session for key, draft in self._drafts.items()}
        for key in [key for key, session in asked.items() if session in sessions]:
            self.drop(key)
            error = EngineError("the cohort ended while this episode waited for its turn.")
            self._over.append((key, error))
        for session in sessions:
            self._decoder.cache.drop(session)

    def stop(self) -> None:
        """Free what is held."""
        self._decoder.forget()

    def _join(self) -> None:
        if not self._waiting:
            return
        keys, requests = list(self._waiting), list(self._waiting.values())
        beside = {draft.request.session for draft in self._drafts.values()}
        count = self._decoder.cache.fitting(requests, beside)
        joined = self._decoder.join(requests[:count])
        for key, draft in zip(keys, joined, strict=False):
            del self._waiting[key]
            self._drafts[key] = draft

    def _failed(self, error: EngineError) -> list[tuple[str, Said]]:
        keys = [*self._drafts, *self._waiting]
        self._drafts, self._waiting = {}, {}
        return [(key, _own(error)) for key in keys]


def completion(draft: Draft) -> Completion:
    """What came of a draft."""
    return Completion(
        tuple(draft.ids),
        tuple(draft.logprobs),
        "stop" if draft.stopped else "length",
        draft.version,
        tuple(draft.changes),
    )


def _own(error: EngineError) -> EngineError:
    """An exception is raised by one alone."""
    own = type(error)(str(error))
    own.__cause__ = error
    return own
