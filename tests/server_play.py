"""Fixtures: servers that are doubles, and a started engine that plays at them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from agentrl.engines.servers.starting import Trained, start
from agentrl.policy import Request, Sampling
from agentrl.sections import EngineSection
from tests.server_double import STOP, VOCABULARY, ServerDouble, Weights

LIMIT = 30.0
"""Seconds in which every one of these must have ended."""
QUICK = {"request_timeout": 1.2, "token_timeout": 0.1, "patience": 1.0, "retries": 2}


@pytest.fixture
def doubles(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    made = []

    def make(**options):
        made.append(ServerDouble(**options))
        return made[-1]

    yield make
    for double in made:
        double.close()


@pytest.fixture
def play(tmp_path):
    """Run a coroutine function with a started engine; nothing may take longer than LIMIT."""

    def run(servers, work, *, source=None, adapted=False, **settings):
        told = []
        urls = tuple(server.url for server in servers)
        values = QUICK | {"weights_folder": str(tmp_path / "shared")} | settings
        section = EngineSection(name="vllm-server", urls=urls, **values)
        trained = Trained(tmp_path / "model", VOCABULARY, {}, adapted, context=100)
        engine = start(section, trained, told.append)

        async def all_of_it():
            async with asyncio.timeout(LIMIT), closing(engine):
                if source is not False:
                    await engine.load(source or Weights(1.0), 1)
                return await work(engine)

        return asyncio.run(all_of_it()), told

    return run


@asynccontextmanager
async def closing(engine):
    try:
        yield
    finally:
        await engine.close()


def request(member, turn=0, *, task=0, tokens=8, prompt=(3, 4)) -> Request:
    session = (task, member)
    return Request(tuple(prompt), tokens, (STOP,), Sampling(), 100 * task + member, session, turn)
