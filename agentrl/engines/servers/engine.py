"""ServersEngine: vLLM servers, one or many, as the engine of a run.

In    addresses; requests as token ids; new weights
Out   sampled ids with log-probs and the version of their weights; proof of every hand-over
Not   repeatable to the bit, nor starting servers: `agentrl serve` does
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from agentrl.engines import fingerprint
from agentrl.engines.servers.carriers import Carrier
from agentrl.engines.servers.client import Client
from agentrl.engines.servers.facts import Facts, look
from agentrl.engines.servers.handover import Proof, hand_over, sample_probe
from agentrl.engines.servers.label import Tag
from agentrl.engines.servers.pool import LOOK, Patience, Pool
from agentrl.engines.servers.server import Server
from agentrl.errors import AgentRLError, EngineError, WeightSyncError, blame
from agentrl.policy import Completion, Request, WeightSource

FIRST_LOOK, LAST_LOOK = 1.0, 30.0
"""Seconds until a lost server is looked for again: at first, and at most."""


class ServersEngine:
    """A turn goes to the server that has the episode's prefix, and elsewhere when that is lost."""

    name = "vllm-server"
    wave = False

    def __init__(
        self,
        clients: Sequence[Client],
        facts: Sequence[Facts],
        carrier: Carrier,
        tag: Tag,
        patience: Patience,
        *,
        max_context: int,
        max_live: int,
        vocabulary: int,
        sync_seconds: float,
        rows: int,
        tell: Callable[[str], None],
    ) -> None:
        """Ask nothing yet.

        Args:
            clients: One a server.
            facts: Of each.
            carrier: How new weights come to them.
            tag: Of this run.
            patience: With servers that don't answer.
            max_context: Tokens of prompt and completion; less where a server has fewer.
            max_live: Episodes played at once.
            vocabulary: Ids that the policy knows.
            sync_seconds: One step of a hand-over may take.
            rows: Requests at one server at once; 0: as many as it computes at once.
            tell: Takes a line when a server is lost or comes back.
        """
        self.max_context = min(max_context, *(one.context for one in facts))
        self.max_live = max_live
        self._vocabulary = vocabulary
        self._carrier, self._tag, self._seconds, self._tell = carrier, tag, sync_seconds, tell
        servers = [
            Server(client, one, asyncio.Semaphore(rows or one.rows))
            for client, one in zip(clients, facts, strict=True)
        ]
        self._pool = Pool(servers, tag, patience, not carrier.pauses, tell, self._look_for)
        self.inflight = self._pool.tells_versions
        self._probe: tuple[int, ...] | None = None
        self._proof: Proof | None = None
        self._pool.doubt = "engine vllm-server: it was handed no weights yet."
        self._looking: dict[Server, asyncio.Task[None]] = {}
        self._closed = False

    @property
    def servers(self) -> Sequence[Server]:
        """As they are now."""
        return self._pool.servers

    def episodes(self, sessions: Sequence[tuple[int, int]]) -> AbstractContextManager[None]:
        """Nothing to prepare: an episode gets its server with its first turn."""
        return nullcontext()

    def finish(self, session: tuple[int, int]) -> None:
        """Count an episode no longer at its server."""
        self._pool.finish(session)

    async def generate(self, request: Request) -> Completion:
        """Sample one turn; a server that fails meanwhile is replaced by another.

        Raises:
            EngineError: the request can't be run, was refused, or no server is left.
            WeightSyncError: the last hand-over failed.
        """
        self._check(request)
        return await self._pool.generate(request)

    async def load(self, source: WeightSource, version: int) -> None:
        """Hand new weights to every server, and prove it.

        A server that fails on the way is given up, and the others go on.

        Raises:
            WeightSyncError: a server computes with other weights, or none took them.
        """
        await self._look_no_more()
        # Who is lost from here on waits for the new version: no older one is given any more.
        self._proof = None
        try:
            await self._hand_to_all(source, version)
        except BaseException:
            self._pool.doubt = (
                f"engine vllm-server: the hand-over of version {version} failed. Weights are "
                "unknown; nothing is sampled before a hand-over succeeds."
            )
            self._pool.changed.set()
            raise

    async def _hand_to_all(self, source: WeightSource, version: int) -> None:
        probe = await self._probe_from(self.servers)
        proof = Proof(version, probe, source.fingerprint(probe))
        await self._carrier.bring(source, version)
        # One that is lost is looked for apart, where that can be: here it would hold up the others.
        here = [s for s in self.servers if s.up or not self._carrier.again]
        taking = here or self.servers
        for server in taking:
            server.close()
        done = await asyncio.gather(
            *(self._hand(server, proof) for server in taking), return_exceptions=True
        )
        self._judge([error for error in done if error is not None])
        self._proof, self._pool.doubt = proof, ""
        for server in self.servers:
            if not server.up:
                self._look_for(server)
        await self._until_any(version)
        await self._carrier.tidy(self.servers)

    async def _until_any(self, version: int) -> None:
        """Where every server was lost, one may come back, and takes these weights first."""
        # Where none ever had any, they can't take them: to wait would mend nothing.
        hopeful = self._carrier.again and any(server.last for server in self.servers)
        while not any(server.open for server in self.servers):
            try:
                if not hopeful:
                    raise EngineError(f"engine vllm-server: {self._pool.obituary()}")
                await self._pool.wait_for_any()
            except EngineError as error:
                said = str(error).partition(": ")[2]
                raise WeightSyncError(
                    f"engine vllm-server, weights of version {version}: {said}"
                ) from error

    async def sleep(self) -> None:
        """Servers have memory of their own."""

    async def wake(self) -> None:
        """Nothing was given back."""

    def counters(self) -> Mapping[str, float]:
        """Requests, tries, losses and returns; tokens of prompts, and of those in a cache."""
        names = (
            "requests",
            "retries",
            "moved_sessions",
            "servers_lost",
            "servers_back",
            "hand_overs",
            "prompt_tokens",
            "cached_tokens",
            "sampled_tokens",
        )
        return {name: float(self._pool.counts[name]) for name in names}

    async def close(self) -> None:
        """Let the servers go; they stay as they are."""
        self._closed = True
        await self._look_no_more()
        await self._carrier.close()
        for server in self.servers:
            await server.client.close()

    async def _hand(self, server: Server, proof: Proof) -> None:
        try:
            if not server.up:
                await server.client.get("/health", LOOK)
            await self._give(server, proof)
        except EngineError as error:
            self._pool.give_up(server, f"hand-over of version {proof.version}: {error}")
            raise
        except BaseException:
            self._pool.give_up(server, "its hand-over was broken off")
            raise
        self._pool.counts["hand_overs"] += 1
        self._pool.take_in(server, self._carrier.model(server, proof.version), proof.version)

    def _judge(self, errors: Sequence[BaseException]) -> None:
        """Go on without servers that failed, unless one has other weights."""
        for error in errors:
            if isinstance(error, WeightSyncError) or not isinstance(error, EngineError):
                raise error

    async def _probe_from(self, servers: Sequence[Server]) -> tuple[int, ...]:
        """The ids that every server is asked about; sampled once."""
        for server in servers if self._probe is None else ():
            length = min(fingerprint.LENGTH, self.max_context - 1)
            try:
                self._probe = await sample_probe(server, length)
                break
            except EngineError as error:
                self._pool.give_up(server, str(error))
        if self._probe is None:
            raise EngineError(f"engine vllm-server: {self._pool.obituary()}")
        return self._probe

    def _look_for(self, server: Server) -> None:
        """Begin to look whether a lost server comes back."""
        running = self._looking.get(server)
        if self._closed or not self._carrier.again or (running and not running.done()):
            return
        self._looking[server] = asyncio.get_running_loop().create_task(self._revive(server))

    async def _look_no_more(self) -> None:
        looking = list(self._looking.values())
        self._looking.clear()
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    async def _revive(self, server: Server) -> None:
        """Take a server in again once it has proved the newest weights."""
        pause, said = FIRST_LOOK, ""
        while not server.up:
            await asyncio.sleep(pause)
            proof = self._proof
            if proof is None:
                continue
            pause = min(2 * pause, LAST_LOOK)
            try:
                await server.client.get("/health", LOOK)
            except EngineError:
                continue
            try:
                await self._look_again(server)
                await self._give(server, proof)
            except AgentRLError as error:
                if str(error) != said:
                    said = str(error)
                    self._tell(f"{server.url}: it answers, but is not taken in again: {said}")
                continue
            self._pool.take_in(server, self._carrier.model(server, proof.version), proof.version)

    async def _look_again(self, server: Server) -> None:
        """It may have been started anew, and otherwise."""
        server.facts = await look(server.client)
        if server.facts.context < self.max_context:
            raise EngineError(
                f"its context has {server.facts.context} tokens, this run's {self.max_context}"
            )

    async def _give(self, server: Server, proof: Proof) -> None:
        with blame(EngineError, "an answer that is none of vLLM's"):
            work = hand_over(server, self._carrier, self._tag, proof, self._seconds)
            await self._pool.attended(server, work)

    def _check(self, request: Request) -> None:
        problem = request.problem(self.max_context, self._vocabulary)
        if problem is not None:
            raise EngineError(f"engine vllm-server, episode {request.session}: {problem}.")
