"""Servers that fail at random while turns are asked for and weights are handed over."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.server_double import STOP, ServerDouble, Weights, draw
from tests.server_play import doubles, play, request

__all__ = ["doubles", "play"]

FAULTS = (
    "500",
    "abort",
    "500 /collective_rpc",
    "500 /update_weight_version",
    "keeps cache",
    "hang",
)
VERSIONS, EPISODES, TURNS = 6, 12, 4


class Storm:
    """Spoils one server after another, kills some and starts them anew; all is well at last."""

    def __init__(self, servers: list[ServerDouble], seed: int) -> None:
        self.servers, self.chance = servers, random.Random(seed)
        self.over = False

    async def rage(self) -> None:
        while not self.over:
            place = self.chance.randrange(len(self.servers))
            if self.chance.random() < 0.2:
                await self.restart(place)
            else:
                self.servers[place].faults.add(self.chance.choice(FAULTS))
            await asyncio.sleep(self.chance.random() / 3)
            self.calm(place)

    def calm(self, place: int) -> None:
        self.servers[place].faults.clear()

    async def restart(self, place: int) -> None:
        old = self.servers[place]
        await asyncio.to_thread(old.close)
        await asyncio.sleep(self.chance.random() / 5)
        self.servers[place] = await asyncio.to_thread(ServerDouble, port=old.port)
        self.servers[place].seconds = old.seconds


@pytest.mark.parametrize("way", ["folder", pytest.param("lora", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 8))]
)
def test_whatever_fails_every_turn_is_that_of_its_seed_and_of_the_weights_it_names(
    doubles, play, seed, way
):
    servers = [doubles() for _ in range(3)]
    for server in servers:
        server.seconds = 0.02
    storm = Storm(servers, seed)

    async def work(engine):
        raging = asyncio.create_task(storm.rage())
        playing = [asyncio.create_task(episode(engine, member)) for member in range(EPISODES)]
        for version in range(2, VERSIONS + 1):
            await asyncio.sleep(0.3)
            await engine.load(Weights(float(version)), version)
        said = await asyncio.gather(*playing)
        storm.over = True
        await raging
        for place in range(len(servers)):
            storm.calm(place)
        assert all(server.busy == 0 and not server.sessions for server in engine.servers)
        return said, await engine.generate(request(99))

    (said, last), _ = play(
        servers,
        work,
        weights=way,
        adapted=way == "lora",
        retries=50,
        patience=25.0,
        request_timeout=0.4,
    )
    for server in storm.servers:
        server.close()
    for asked, found in (pair for turns in said for pair in turns):
        assert found.ids == tuple(draw(asked.seed, list(asked.prompt_ids), 8, [STOP]))
        expected = [-(found.version + i % 7 * 0.1) for i in found.ids]
        assert found.logprobs == pytest.approx(expected)
    assert last.version == VERSIONS


async def episode(engine, member):
    prompt, turns = (3, 4), []
    for turn in range(TURNS):
        asked = request(member, turn, prompt=prompt)
        turns.append((asked, await engine.generate(asked)))
        prompt = (*prompt, *turns[-1][1].ids, 5)
        await asyncio.sleep(0.1)
    engine.finish((0, member))
    return turns
