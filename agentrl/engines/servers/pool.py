"""Several servers behind one question: which is asked, when it is asked again, when it is given up.

In    turns to be sampled, servers
Out   completions, whichever server gave them; counters
Not   hand-overs, but that nothing passes a server whose weights are in doubt

A turn is asked with the same ids and the same seed wherever it is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentrl.engines.servers.client import UNREADABLE, Refused, ServerTrouble
from agentrl.engines.servers.facts import GENERATE
from agentrl.engines.servers.label import Tag, Versions, read_spans
from agentrl.engines.servers.server import Server, Session
from agentrl.engines.servers.wire import Answer, answered, question
from agentrl.errors import EngineError, WeightSyncError
from agentrl.policy import Completion, Request

T = TypeVar("T")
LOOK = 5.0
"""Seconds for the answer of a server that is asked whether it lives."""
PAUSE = 0.2
"""Seconds before the second try; each further one waits twice as long."""
TROUBLES = 4
"""So many in a row, and a server is given up although it says that it lives."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, and how often; seconds."""

    retries: int = 3
    """Of one turn."""
    request: float = 60.0
    token: float = 1.0
    """More for each token that a turn may have."""
    servers: float = 300.0
    """Without any server."""
    look: float = 15.0
    """Until a server that is busy with a turn is asked whether it lives, and for its answer."""


@dataclass(slots=True, eq=False)
class Pool:
    """The servers, and who is asked what."""

    servers: Sequence[Server]
    tag: Tag
    patience: Patience
    adapters: bool
    """Whether weights are adapters, which requests address by name."""
    tell: Callable[[str], None]
    lost: Callable[[Server], None]
    """Called once for each loss: somebody should look whether it comes back."""
    seats: dict[Session, Server] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a server comes back."""
    counts: Counter[str] = field(default_factory=Counter)
    doubt: str = ""
    """Why nothing may be sampled; empty where all weights are proved or being handed over."""

    async def generate(self, request: Request) -> Completion:
        """Sample one turn.

        Raises:
            EngineError: it was refused, the tries are used up, or all servers are gone.
            WeightSyncError: a hand-over failed.
        """
        tries = 0
        while True:
            server = await self._seat(request.session)
            try:
                completion = await self._once(server, request)
            except ServerTrouble as trouble:
                failure = trouble
            except EngineError as error:
                raise EngineError(f"{_named(server, request)}: {error}.") from error
            else:
                server.troubles = 0
                return completion
            finally:
                server.room.release()
            await self._suspect(server, failure)
            if tries == self.patience.retries:
                raise EngineError(
                    f"{_named(server, request)}: {failure}. It was asked {tries + 1} times; "
                    "raise --engine.retries, or look at the server."
                ) from failure
            self.counts["retries"] += 1
            if server.up:
                await asyncio.sleep(PAUSE * 2**tries)
            tries += 1

    def finish(self, session: Session) -> None:
        """An episode asks no more."""
        server = self.seats.pop(session, None)
        if server is not None:
            server.sessions.discard(session)

    def give_up(self, server: Server, cause: str) -> None:
        """Ask a server nothing more until it has proved its weights again."""
        if not server.up:
            return
        server.lose(cause.rstrip("."))
        self.counts["servers_lost"] += 1
        left = sum(other.up for other in self.servers)
        self.tell(
            f"{server.url}: given up: {server.cause}. Its {len(server.sessions)} episodes go on "
            + (f"at {left} other servers." if left else "when a server comes back.")
        )
        self.lost(server)

    def take_in(self, server: Server, model: str, version: int) -> None:
        """A server's weights are proved."""
        if not server.up:
            self.counts["servers_back"] += 1
            self.tell(f"{server.url}: taken in again with weights of version {version}.")
        server.admit(model, version)
        self.changed.set()

    async def _seat(self, session: Session) -> Server:
        """A server with room for one more request of this episode."""
        while True:
            if self.doubt:
                raise WeightSyncError(self.doubt)
            server = self._of(session)
            if server is None:
                await self.wait_for_any()
                continue
            await server.room.acquire()
            try:
                await server.opened.wait()
            except BaseException:
                server.room.release()
                raise
            if server.open and not self.doubt:
                return server
            server.room.release()

    def _of(self, session: Session) -> Server | None:
        """The server that holds an episode's prefix, or the one with the fewest episodes."""
        server = self.seats.get(session)
        if server is not None and server.up:
            return server
        up = [other for other in self.servers if other.up]
        if not up:
            return None
        if server is not None:
            self.finish(session)
            self.counts["moved_sessions"] += 1
        chosen = min(up, key=lambda other: (len(other.sessions), other.busy))
        self.seats[session] = chosen
        chosen.sessions.add(session)
        return chosen

    async def wait_for_any(self) -> None:
        """Wait until a server comes back; EngineError where patience ends before."""
        self.changed.clear()
        try:
            async with asyncio.timeout(self.patience.servers):
                await self.changed.wait()
        except TimeoutError:
            raise EngineError(f"engine vllm-server: {self.obituary()}") from None

    def obituary(self) -> str:
        """That no server is left, and why; what was trained is in the run's checkpoints."""
        causes = "; ".join(f"{server.url}: {server.cause}" for server in self.servers)
        cure = "Start them again, and go on with `agentrl train --resume`."
        if all(server.last is None for server in self.servers):
            cure = "None ever took this run's weights: start them as `agentrl serve` does."
        return f"no server is left ({causes}). {cure}"

    async def _once(self, server: Server, request: Request) -> Completion:
        """Ask one server once."""
        losses, model, version = server.losses, server.model, server.version
        path = server.facts.path
        self.counts["requests"] += 1
        server.busy += 1
        server.asked[model] += 1
        try:
            asking = server.client.post(path, question(request, model, path), seconds=None)
            told = await self._in_time(server, request, asking)
        except Refused as refusal:
            if self.adapters and refusal.status == 404:
                raise ServerTrouble(f"it has lost the adapter {model}", lost=True) from refusal
            raise
        finally:
            server.busy -= 1
            server.asked[model] -= 1
        answer = answered(request, path, told)
        await server.opened.wait()
        if server.losses != losses:
            raise ServerTrouble(server.cause, lost=True)
        versions = await self._versions(server, answer, model, version)
        self.counts["prompt_tokens"] += answer.prompt_tokens
        self.counts["cached_tokens"] += answer.cached_tokens
        self.counts["sampled_tokens"] += len(answer.ids)
        return Completion(
            answer.ids, answer.logprobs, answer.finish_reason, versions.first, versions.changes
        )

    async def _in_time(self, server: Server, request: Request, asking: Awaitable[T]) -> T:
        """The answer; time that a hand-over takes does not count."""
        seconds = self.patience.request + self.patience.token * request.max_tokens
        answer = asyncio.ensure_future(asking)
        gone = asyncio.ensure_future(server.gone.wait())
        both: set[asyncio.Future[Any]] = {answer, gone}
        now = asyncio.get_running_loop().time
        version, until = server.version, now() + seconds
        try:
            while not answer.done():
                pause = min(self.patience.look, max(0.0, until - now()))
                done, _ = await asyncio.wait(
                    both, timeout=pause, return_when=asyncio.FIRST_COMPLETED
                )
                if answer in done:
                    break
                if gone in done:
                    raise ServerTrouble(server.cause, lost=True)
                if not server.open or server.version != version:
                    await server.opened.wait()
                    version, until = server.version, now() + seconds
                elif now() >= until:
                    said = f"no answer within {seconds:g} s for {request.max_tokens} tokens"
                    raise ServerTrouble(said, lost=True)
                else:
                    await self._see_it_live(server, now())
            return answer.result()
        finally:
            answer.cancel()
            gone.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def attended(self, server: Server, work: Coroutine[Any, Any, T]) -> T:
        """What long work at a server gives, as long as the server answers at all.

        Raises:
            ServerTrouble: it hangs; the work was broken off.
        """
        doing = asyncio.ensure_future(work)
        try:
            while not doing.done():
                await asyncio.wait([doing], timeout=self.patience.look)
                if not doing.done():
                    await self._see_it_live(server, asyncio.get_running_loop().time())
            return doing.result()
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)

    async def _see_it_live(self, server: Server, now: float) -> None:
        """Long before a long turn is late, notice that a server answers nothing at all."""
        # While one looks the others need not: a second look would put off what the first one found.
        if server.suspicion.locked() or now < server.seen + self.patience.look:
            return
        async with server.suspicion:
            server.seen = now
            try:
                await server.client.get("/health", self.patience.look)
            except ServerTrouble as trouble:
                self.give_up(server, f"it hangs: {trouble}")
                raise ServerTrouble(server.cause, lost=True) from trouble

    async def _versions(self, server: Server, answer: Answer, model: str, version: int) -> Versions:
        """Which weights sampled what; raises where they are not those that were handed over."""
        if self.adapters:
            if answer.model != model:
                raise EngineError(f"asked for the adapter {model}, it used {answer.model}")
            return Versions(version)
        if answer.spans is None:
            await self.still_ours(server)
            return Versions(version)
        versions = read_spans(answer.spans, len(answer.ids), self.tag)
        if versions is None:
            labels = sorted({str(span["version"]) for span in answer.spans})
            raise ServerTrouble(_foreign(labels), lost=True)
        return versions

    async def _suspect(self, server: Server, trouble: ServerTrouble) -> None:
        """Look whether a server that gave trouble lives; give it up where it doesn't."""
        async with server.suspicion:
            if not server.up:
                return
            server.troubles += 1
            if trouble.lost or server.troubles >= TROUBLES:
                self.give_up(server, str(trouble))
                return
            try:
                await server.client.get("/health", LOOK)
                await self.still_ours(server)
            except EngineError as error:
                self.give_up(server, f"{trouble}; {error}")

    async def still_ours(self, server: Server) -> None:
        """See whether a server has the weights that it was handed.

        Raises:
            ServerTrouble: it has others: it was started anew, or another run uses it.
        """
        path = "/v1/models" if self.adapters else "/weight_info"
        told = await server.client.get(path, LOOK)
        try:
            if self.adapters:
                ours = server.model in [str(one["id"]) for one in told["data"]]
                said = f"it has lost the adapter {server.model}"
            else:
                ours = self.tag.version(told["weight_version"]) is not None
                said = _foreign([str(told["weight_version"])])
        except UNREADABLE as error:
            raise ServerTrouble(f"{path}: its answer can't be read ({error!r})") from error
        if not ours:
            raise ServerTrouble(said, lost=True)

    @property
    def tells_versions(self) -> bool:
        """Whether every server says which tokens came from which weights."""
        return self.adapters or all(s.facts.path == GENERATE for s in self.servers)


def _foreign(labels: Sequence[str]) -> str:
    return (
        f"its weights are labelled {', '.join(labels)}, not as they were handed over: it was "
        "started anew, or another run uses it"
    )


def _named(server: Server, request: Request) -> str:
    return f"engine vllm-server, {server.url}, episode {request.session}, turn {request.turn}"
