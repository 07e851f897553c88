"""New weights for servers: pause, give, forget the cache, label, resume, prove.

In    a carrier with a version at hand; the learner's log-probs of the probe
Out   servers that compute with it, proved by what they say; others raise
Not   which servers take part, nor what is done with one that fails: engine.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from agentrl.engines import fingerprint
from agentrl.engines.fingerprint import Fingerprint
from agentrl.engines.servers.carriers import Carrier
from agentrl.engines.servers.client import ServerTrouble
from agentrl.engines.servers.facts import GENERATE
from agentrl.engines.servers.label import Tag
from agentrl.engines.servers.server import Server
from agentrl.engines.servers.wire import answered, likelihood, likelihoods, question
from agentrl.errors import EngineError, WeightSyncError
from agentrl.policy import Request, Sampling
from agentrl.unbroken import unbroken

STEP = 0.02
"""Seconds between looks whether a server's requests have ended."""
RESUME, LEAVE = 30.0, 2.0
"""Seconds in which a server must go on; where it failed, or is not waited for any more."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a version must answer."""

    version: int
    probe: tuple[int, ...]
    learner: Sequence[float]


async def sample_probe(server: Server, length: int) -> tuple[int, ...]:
    """Ids that the policy itself finds likely: rounding moves those the least."""
    request = Request((0,), length - 1, (), Sampling(), 0, (0, 0))
    path, model = server.facts.path, server.facts.model
    # A run that was killed in a hand-over has left it paused.
    await server.client.post("/resume", seconds=RESUME)
    told = await server.client.post(path, question(request, model, path), seconds=120.0)
    return (0, *answered(request, path, told).ids)


async def hand_over(
    server: Server, carrier: Carrier, tag: Tag, proof: Proof, seconds: float
) -> None:
    """Give one server a version and see that it computes with it.

    Raises:
        ServerTrouble: it failed on the way; what it computes with is unknown.
        WeightSyncError: it computes with other weights.
    """
    if carrier.pauses:
        await _paused(server, carrier, tag, proof.version, seconds)
    else:
        await carrier.give(server, proof.version)
    await prove(server, carrier.model(server, proof.version), proof, seconds)


async def _paused(server: Server, carrier: Carrier, tag: Tag, version: int, seconds: float) -> None:
    """A server that was told to pause is told to go on, whatever comes between."""
    client, told = server.client, server.facts.path == GENERATE
    if not told:
        # Without spans nobody could say which weights sampled a turn that goes on meanwhile.
        await _idle(server, seconds)
    keeps = told and server.busy > 0
    try:
        mode = {"mode": "keep" if keeps else "wait"}
        await client.post("/pause", query=mode, seconds=seconds)
        await carrier.give(server, version)
        # What was computed with the old weights is computed again, also for turns that go on.
        again = {"reset_running_requests": "true" if keeps else "false"}
        answer = await client.post("/reset_prefix_cache", query=again, seconds=seconds)
        if not (answer or {}).get("success"):
            raise ServerTrouble("it kept its prefix cache, which holds the old weights' keys")
        label = {"new_version": tag.of(version)}
        await client.post("/update_weight_version", label, seconds=seconds)
    except BaseException:
        # What went wrong is told, not that it can't be told to go on either.
        with suppress(EngineError):
            await unbroken(client.post("/resume", seconds=LEAVE), grace=LEAVE)
        raise
    await unbroken(client.post("/resume", seconds=RESUME), grace=LEAVE)


async def _idle(server: Server, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            while server.busy:
                await asyncio.sleep(STEP)
    except TimeoutError:
        raise ServerTrouble(f"its turns did not end within {seconds:g} s", lost=True) from None


async def prove(server: Server, model: str, proof: Proof, seconds: float) -> None:
    """Compare what a server says of the probe with what the learner says.

    Raises:
        WeightSyncError: they differ by more than rounding.
    """
    path = server.facts.path
    body = likelihood(proof.probe, model, path)
    told = await server.client.post(path, body, seconds=seconds)
    now = Fingerprint(proof.version, proof.learner, likelihoods(proof.probe, path, told))
    before = server.last if server.last and server.last.version != proof.version else None
    try:
        fingerprint.check(now, before, server.facts.dtype)
    except WeightSyncError as error:
        said = str(error).removeprefix("engine vllm, ")
        raise WeightSyncError(f"engine vllm-server, {server.url}, {said}") from error
    server.last = now
