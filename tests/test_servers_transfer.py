"""Weight transfer: what is called of vLLM, and that vLLM takes such calls."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
from types import SimpleNamespace

import pytest

from agentrl.engines.servers.client import Client, ServerTrouble
from agentrl.engines.servers.facts import Facts
from agentrl.engines.servers.server import Server
from agentrl.engines.servers.transfer import NAMES, PACKAGE, TransferCarrier, kit
from agentrl.errors import EngineError, UsageError, WeightSyncError
from tests.server_double import ServerDouble, Weights


class Recorder:
    """Takes calls as a given signature allows, and remembers them."""

    def __init__(self, log, name, signature=None):
        self.log, self.name, self.signature = log, name, signature

    def __call__(self, *args, **kwargs):
        if self.signature is not None:
            self.signature.bind(*args, **kwargs)
        self.log.append((self.name, args, kwargs))
        return SimpleNamespace(kind=self.name, args=args, kwargs=kwargs)


class Factory:
    """Its senders ask the source for all it has, as vLLM's do."""

    def __init__(self, log, signature=None, fails=None):
        self.begin = Recorder(log, "trainer_init", signature)
        self.log, self.fails = log, fails

    def trainer_init(self, *args, **kwargs):
        made = self.begin(*args, **kwargs)
        source = made.kwargs["source"]

        def send_weights():
            if self.fails:
                self.fails()
            names = [one.args for one in source.metadata()]
            self.log.append(("sent", names, [(name, t.item()) for name, t in source]))

        return SimpleNamespace(send_weights=send_weights)


def parts(log, real=None, fails=None):
    """Doubles of vLLM's names; `real` gives the signatures that the installed version has."""
    of = (
        {key: inspect.signature(real[key]) for key in ("client", "meta", "nccl", "ipc")}
        if real
        else {}
    )
    start = inspect.signature(real["start"].trainer_init) if real else None
    found = {key: Recorder(log, key, of.get(key)) for key in ("client", "meta", "nccl", "ipc")}
    source = real["source"] if real else object
    return found | {"start": Factory(log, start, fails), "source": source}


def breaks():
    raise RuntimeError("the group broke")


def given(way, real=None, fails=None, versions=(1.0, 2.0), seconds=5.0):
    """Give some versions to one server, and return what was called."""
    log, double = [], ServerDouble()
    routes = {"/get_world_size": {"world_size": 2}}
    double.route = lambda path, query, body: (200, routes[path])

    async def work():
        client = Client(double.url)
        facts = Facts("policy", 100, 8, "float32", "", "0.0")
        server = Server(client, facts, asyncio.Semaphore(1))
        carrier = TransferCarrier(way, parts(log, real, fails), seconds)
        try:
            for version, weight in enumerate(versions, 1):
                await carrier.bring(Weights(weight), version)
                await carrier.give(server, version)
        finally:
            await carrier.close()
            await client.close()

    try:
        asyncio.run(work())
    finally:
        double.close()
    return log, double.url


@pytest.mark.parametrize("way", ["nccl", "ipc"])
def test_one_group_a_server_is_opened_once_and_each_version_is_sent_through_it(way):
    log, url = given(way)
    (opened,) = [kwargs for name, _, kwargs in log if name == way]
    assert opened["rank"] == 0
    if way == "nccl":
        ((address, port, world),) = [args for name, args, _ in log if name == way]
        assert (address, world) == ("127.0.0.1", 3)
        assert port > 0
    assert [args for name, args, _ in log if name == "client"] == [(url,)]
    assert [pairs for name, _, pairs in log if name == "sent"] == [[("w", 1.0)], [("w", 2.0)]]


def test_a_transfer_that_breaks_is_a_server_that_failed_not_one_with_other_weights():
    with pytest.raises(EngineError, match=r"^nccl transfer: RuntimeError: the gr") as caught:
        given("nccl", fails=breaks)
    assert not isinstance(caught.value, WeightSyncError)


def test_a_transfer_that_hangs_is_left_behind_when_its_time_is_over():
    go_on = threading.Event()
    try:
        with pytest.raises(ServerTrouble, match=r"^nccl transfer: not done within 0.2 s"):
            given("nccl", fails=go_on.wait, seconds=0.2)
    finally:
        go_on.set()


def test_a_vllm_without_these_names_is_told_in_one_line():
    def load(name):
        raise ImportError("No module named 'vllm'")

    with pytest.raises(UsageError, match=r"not here as it is known.*--engine\.weights folder"):
        kit(load)
    with pytest.raises(UsageError, match="WeightTransferTrainerFactory"):
        kit(lambda name: SimpleNamespace())


@pytest.mark.slow
@pytest.mark.parametrize("way", ["nccl", "ipc"])
@pytest.mark.filterwarnings("ignore")
def test_the_installed_vllm_takes_these_calls(way):
    pytest.importorskip("vllm")
    real = {
        key: getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
        for key, (module, name) in NAMES.items()
    }
    log, _ = given(way, real)
    assert [name for name, _, _ in log].count("sent") == 2
    assert kit() == real
