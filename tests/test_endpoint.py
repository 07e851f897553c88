"""A chat server is asked with patience, and what it says is sorted by whose fault it is."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import httpx
import pytest

from agentrl.config import EndpointSection
from agentrl.endpoint import GIVE_UP, ContextFull, Endpoint, Filtered
from agentrl.errors import EnvironmentFault, RunError, UsageError

FINE = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self):
        self.at, self.slept = 0.0, []

    def __call__(self):
        return self.at

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.at += seconds


def endpoint(answers, clock=None, key="", **settings):
    """An endpoint whose server gives these answers in turn, the last one for ever."""
    left = list(answers)

    def answer(request):
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    clock = clock or Clock()
    return Endpoint(
        EndpointSection(base_url="http://here/v1", **settings),
        key,
        transport=httpx.MockTransport(answer),
        clock=clock,
        sleep=clock.sleep,
        jitter=lambda: 0.5,
        now=lambda: datetime(2026, 1, 1, 12, 0, tzinfo=UTC),
    )


def ask(server, times=1):
    async def run():
        try:
            return [await server.chat({"model": "m"}) for _ in range(times)][-1]
        finally:
            await server.close()

    return asyncio.run(run())


def fine():
    return httpx.Response(200, json=FINE)


def error(status, message, **more):
    return httpx.Response(status, json={"error": {"message": message, **more}})


def test_an_answer_comes_back_with_the_tries_it_took():
    server = endpoint([error(503, "busy"), httpx.ConnectError("refused"), fine()])
    assert ask(server) == (FINE, 2)
    assert server.retries == 2


def test_waits_grow_and_a_server_that_names_its_wait_is_obeyed():
    clock = Clock()
    slow = httpx.Response(429, json={}, headers={"Retry-After": "17"})
    until = httpx.Response(429, json={}, headers={"Retry-After": "Thu, 01 Jan 2026 12:00:30 GMT"})
    server = endpoint([error(500, "a"), error(500, "b"), slow, fine(), until, fine()], clock)
    ask(server, 2)
    assert clock.slept == [1.0, 2.0, 17.0, 30.0]


def test_requests_keep_to_the_limit_of_a_minute():
    clock = Clock()
    ask(endpoint([fine()], clock, max_requests=30), 4)
    assert clock.slept == [2.0, 2.0, 2.0]


def test_patience_ends_after_so_many_tries_or_seconds():
    with pytest.raises(EnvironmentFault, match="failed 3 times: HTTP 500: again"):
        ask(endpoint([fine(), error(500, "again")], retries=2), 2)
    with pytest.raises(EnvironmentFault, match="failed 4 times"):
        ask(endpoint([fine(), error(500, "again")], retries=50, patience=10), 2)


def test_a_server_that_never_answered_is_a_wrong_address():
    with pytest.raises(UsageError, match=r"no answer in 4 tries .*ConnectError.* Is the server up"):
        ask(endpoint([httpx.ConnectError("refused")], retries=50))


def test_a_server_that_stays_down_stops_the_evaluation():
    server = endpoint([fine(), error(500, "down")], retries=0)
    ask(server)

    async def run():
        for _ in range(GIVE_UP - 1):
            with pytest.raises(EnvironmentFault):
                await server.chat({})
        with pytest.raises(RunError, match=r"8 requests in a row failed.*--resume"):
            await server.chat({})
        await server.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "Is the key in MY_KEY right"), (403, "May the key"), (404, "up to /v1")],
)
def test_a_wrong_key_or_address_is_told_at_once_and_without_the_key(status, advice):
    clock = Clock()
    server = endpoint(
        [error(status, "bad key sk-secret.")], clock, "sk-secret", api_key_env="MY_KEY"
    )
    with pytest.raises(UsageError, match=advice) as caught:
        ask(server)
    assert "sk-secret" not in str(caught.value)
    assert clock.slept == []


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000",
        "The decoder prompt (length 999) is longer than the maximum model length of 512",
        "Input exceeds the limit of 100 tokens",
        "This model's maximum context length is 1024 tokens. However, your prompt contains at "
        "least 1025 input tokens, which exceeds this limit even without any output tokens.",
    ],
)
def test_a_conversation_too_long_ends_itself_and_nothing_else(words):
    with pytest.raises(ContextFull):
        ask(endpoint([error(400, words)]))
    with pytest.raises(ContextFull):
        ask(endpoint([error(400, "no", code="context_length_exceeded")]))


def test_a_filter_is_no_failure_of_the_server():
    with pytest.raises(Filtered):
        ask(endpoint([error(400, "no", code="content_filter")]))


def test_a_refused_request_is_a_wrong_setting_at_first_and_a_broken_episode_later():
    with pytest.raises(UsageError, match=r"refuses the request. HTTP 400, Unsupported parameter"):
        ask(endpoint([error(400, "Unsupported parameter: max_tokens")]))
    with pytest.raises(EnvironmentFault, match="refuses a request: HTTP 422"):
        ask(endpoint([fine(), error(422, "odd")]), 2)


def test_what_is_no_completion_is_tried_again():
    odd = [httpx.Response(200, text="<html>"), httpx.Response(200, json={"choices": []}), fine()]
    assert ask(endpoint(odd))[1] == 2


@pytest.mark.parametrize(
    "odd",
    [
        httpx.Response(200, text="[" * 200_000),
        httpx.Response(500, text="[" * 200_000),
        httpx.DecodingError("incorrect header check"),
    ],
)
def test_whatever_comes_back_is_a_failure_of_the_server(odd):
    assert ask(endpoint([odd, fine()])) == (FINE, 1)


def test_halves_of_characters_do_not_come_in():
    answer = httpx.Response(200, text='{"choices": [{"message": {"content": "a\\ud800b"}}]}')
    assert ask(endpoint([answer]))[0]["choices"][0]["message"]["content"] == "a\ufffdb"


def test_an_answer_that_never_ends_is_given_up_in_time():
    class Drips(httpx.AsyncByteStream):
        async def __aiter__(self):
            while True:
                await asyncio.sleep(0.01)
                yield b" "

    drips = [httpx.Response(200, stream=Drips()) for _ in range(2)]
    server = endpoint([fine(), *drips], retries=1, timeout=0.1)
    with pytest.raises(EnvironmentFault, match=r"failed 2 times: no whole answer in 0\.1 s"):
        ask(server, 2)


def test_a_pause_beyond_patience_ends_the_evaluation_at_once():
    clock = Clock()
    day = httpx.Response(429, json={}, headers={"Retry-After": "86400"})
    with pytest.raises(RunError, match=r"a pause of 86400 s.* What was played is kept"):
        ask(endpoint([fine(), day], clock), 2)
    assert clock.slept == []


def test_waiting_for_ones_turn_uses_up_no_patience():
    clock = Clock()
    server = endpoint([fine(), fine(), error(500, "once"), fine()], clock, max_requests=1)
    server.settings = server.settings.model_copy(update={"patience": 100.0})

    async def run():
        try:
            return await asyncio.gather(*(server.chat({"n": n}) for n in range(3)))
        finally:
            await server.close()

    assert sorted(tries for _, tries in asyncio.run(run())) == [0, 0, 1]


@pytest.mark.parametrize("url", ["ftp://x/v1", "http://u:p@x/v1", "http://x/v1?key=1", "x"])
def test_an_address_is_one_and_holds_no_secret(url):
    with pytest.raises(ValueError, match="base_url"):
        EndpointSection(base_url=url)


def test_a_pasted_address_of_the_method_itself_is_understood():
    pasted = EndpointSection(base_url="http://x/v1/chat/completions")
    assert pasted.base_url == "http://x/v1"
