"""Many askers, one thread that steps: order, cancelling, failures, the end."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from agentrl.engines.driver import Driver
from agentrl.errors import EngineError
from agentrl.policy import Request, Sampling


def request(tokens: int, seed: int = 0) -> Request:
    return Request((1,), tokens, (), Sampling(), seed, (0, 0))


class Counter:
    """Each request takes as many steps as it has tokens; steps are handed out by the test."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}
        self.most = 0
        self.log: list[str] = []
        self.steps = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)

    def add(self, key, request):
        if request.seed < 0:
            raise ValueError("no such seed")
        self.left[key] = request.max_tokens
        self.log.append(f"add {request.seed}")
        self.begun.release()

    def step(self):
        self.steps.acquire()
        self.most = max(self.most, len(self.left))
        self.left = {key: left - 1 for key, left in self.left.items()}
        if -100 in self.left.values():
            raise RuntimeError("out of memory")
        ended = [key for key, left in self.left.items() if not left]
        for key in ended:
            del self.left[key]
        return [(key, f"output {key}") for key in ended]

    def drop(self, key):
        del self.left[key]
        self.log.append("drop")

    def stop(self):
        self.log.append("stop")


@pytest.fixture
def core():
    return Counter()


@pytest.fixture
def driver(core):
    driver = Driver(core, "counter")
    yield driver
    core.steps.release(1000)
    driver.close()


def test_a_request_joins_those_that_are_running(core, driver):
    long = driver.ask(request(3))
    core.begun.acquire()
    short = driver.ask(request(1))
    core.steps.release(3)
    assert (short.result(), long.result()) == ("output 1", "output 0")
    assert core.most == 2


def test_a_call_that_is_wanted_soon_comes_between_two_steps(core, driver):
    running = driver.ask(request(2))
    core.begun.acquire()
    core.steps.release()
    call = driver.call(lambda: f"beside {len(core.left)}", soon=True)
    core.steps.release()
    assert call.result() in ("beside 1", "beside 0")
    later = driver.ask(request(1000))
    core.begun.acquire()
    second = driver.call(lambda: f"beside {len(core.left)}", soon=True)
    core.steps.release(5)
    assert second.result() == "beside 1"
    assert not later.done()
    assert running.result() == "output 0"
    later.cancel()


def test_a_change_that_fails_ends_what_was_running_and_nothing_after_it(core, driver):
    running = driver.ask(request(1000))
    core.begun.acquire()
    change = driver.change(lambda: 1 // 0)
    later = driver.ask(request(1))
    core.steps.release(3)
    with pytest.raises(ZeroDivisionError):
        change.result()
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        running.result()
    assert later.result() == "output 1"
    assert core.log.count("drop") == 1


def test_a_call_waits_for_the_running_and_lets_none_pass(core, driver):
    first = driver.ask(request(2, seed=1))
    call = driver.call(lambda: core.log.append(f"call beside {len(core.left)}"))
    last = driver.ask(request(1, seed=2))
    core.steps.release(3)
    for future in (first, call, last):
        future.result()
    assert core.log == ["add 1", "call beside 0", "add 2"]


def test_a_request_that_cannot_begin_fails_alone(core, driver):
    good, bad = driver.ask(request(1)), driver.ask(request(1, seed=-1))
    core.steps.release(2)
    assert good.result() == "output 0"
    with pytest.raises(ValueError, match="no such seed"):
        bad.result()


def test_a_call_that_fails_leaves_the_engine_running(core, driver):
    with pytest.raises(ZeroDivisionError):
        driver.call(lambda: 1 // 0).result()
    core.steps.release()
    assert driver.ask(request(1)).result() == "output 0"


def test_a_cancelled_request_is_dropped(core, driver):
    gone = driver.ask(request(9))
    core.begun.acquire()
    other = driver.ask(request(2))
    assert gone.cancel()
    core.steps.release(4)
    assert other.result() == "output 1"
    assert core.log.count("drop") == 1
    with pytest.raises(CancelledError):
        gone.result()


def test_after_a_failed_step_everyone_is_told_and_nothing_more_is_asked(core, driver):
    running = driver.ask(request(-99))
    core.steps.release()
    with pytest.raises(EngineError, match="counter: it failed while generating: RuntimeError"):
        running.result()
    with pytest.raises(EngineError, match="out of memory"):
        driver.ask(request(1)).result()


def test_closing_tells_those_who_wait_and_frees_the_core(core, driver):
    waiting = driver.ask(request(10))
    core.begun.acquire()
    core.steps.release(1)
    closer = threading.Thread(target=driver.close)
    closer.start()
    core.steps.release(10)
    closer.join()
    assert core.log[-1] == "stop"
    assert waiting.done()
    with pytest.raises(EngineError, match="it is closed"):
        driver.ask(request(1)).result()
