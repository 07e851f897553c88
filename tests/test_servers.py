"""Turns at servers: who is asked, what comes back, what is trusted."""

from __future__ import annotations

import asyncio

import pytest

from agentrl.engines.servers.address import addresses, is_loopback
from agentrl.engines.servers.starting import Trained, start
from agentrl.errors import EngineError, UsageError
from agentrl.policy import Completion
from agentrl.sections import EngineSection
from tests.server_double import STOP, VOCABULARY, draw
from tests.server_play import doubles, play, request

__all__ = ["doubles", "play"]


def all_turns(count=16, turns=3):
    """Play episodes of several turns at once; each prompt holds what was said before."""

    async def work(engine):
        async def episode(member):
            prompt, said = (3, 4), []
            for turn in range(turns):
                said.append(await engine.generate(request(member, turn, prompt=prompt)))
                prompt = (*prompt, *said[-1].ids, 5)
            engine.finish((0, member))
            return said

        found = await asyncio.gather(*(episode(member) for member in range(count)))
        return found, engine.counters()

    return work


def one_turn(engine):
    return engine.generate(request(0))


def test_ids_go_in_and_come_out_with_a_log_prob_each_and_the_version_of_their_weights(
    doubles, play
):
    for scale_out in (True, False):
        server = doubles(scale_out=scale_out)
        found, told = play([server], one_turn)
        ids = tuple(draw(0, [3, 4], 8, [STOP]))
        expected = tuple(-(1.0 + i % 7 * 0.1) for i in ids)
        reason = "stop" if ids[-1] == STOP else "length"
        assert found == Completion(ids, pytest.approx(expected), reason, 1)
        assert bool(told) is not scale_out
    assert "without --enable-scale-out: turns go through /v1/completions" in told[0]


def test_everything_that_shapes_a_draw_is_asked_for(doubles, play):
    for scale_out in (True, False):
        server = doubles(scale_out=scale_out)
        play([server], one_turn)
        asked = server.asked[-1]
        params = asked["sampling_params"] if scale_out else asked
        wanted = {
            "temperature": 1.0,
            "seed": 0,
            "max_tokens": 8,
            "stop_token_ids": [STOP],
            "ignore_eos": True,
            "logprobs": 0,
            "top_p": 1.0,
            "top_k": 0,
        }
        assert wanted.items() <= params.items()


def test_two_servers_give_the_samples_of_one_and_members_of_a_group_differ(doubles, play):
    (alone, _), _ = play([doubles()], all_turns())
    one, other = doubles(), doubles()
    (both, _), _ = play([one, other], all_turns())
    assert both == alone
    assert len({tuple(said[0].ids) for said in alone}) == 16
    assert len(one.asked) == len(other.asked) + 1  # the one was asked for the probe, too


def test_an_episode_stays_at_the_server_that_has_its_prefix(doubles, play):
    one, other = doubles(), doubles()
    play([one, other], all_turns(count=6))
    seeds = [
        {body["sampling_params"]["seed"] for body in server.asked if len(body["token_ids"]) > 1}
        for server in (one, other)
    ]
    assert len(seeds[0]) == len(seeds[1]) == 3
    assert not seeds[0] & seeds[1]


def test_a_server_never_has_more_requests_than_it_is_allowed(doubles, play):
    server = doubles()
    server.seconds = 0.02
    (found, _), _ = play([server], all_turns(count=12, turns=1), requests=3)
    assert (len(found), server.most) == (12, 3)


@pytest.mark.parametrize("scale_out", [True, False])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no log-probs", "8 tokens came without log-probs"),
        ("too few", "8 tokens but 7 log-probs"),
        ("400", "it answered 400: no"),
    ],
)
def test_an_answer_that_cannot_be_trained_on_ends_it_and_names_server_and_episode(
    doubles, play, fault, said, scale_out
):
    server = doubles(scale_out=scale_out)

    async def work(engine):
        server.faults.add(fault)
        await engine.generate(request(5, tokens=8, turn=2))

    with pytest.raises(EngineError, match=said) as caught:
        play([server], work)
    assert f"{server.url}, episode (0, 5), turn 2" in str(caught.value)
    assert len(server.asked) == 2  # the probe, and once this: it is not asked again


@pytest.mark.parametrize(
    ("fault", "said"), [("abort", "was aborted there after 1 tokens"), ("500", "answered 500")]
)
def test_what_another_try_may_mend_is_tried_again_as_often_as_the_budget_says(
    doubles, play, fault, said
):
    server = doubles()
    counted = {}

    async def heals(engine):
        server.faults.add(fault)
        asyncio.get_running_loop().call_later(0.1, server.faults.clear)
        found = await one_turn(engine)
        counted.update(engine.counters())
        return found

    async def stays(engine):
        server.faults.add(fault)
        await one_turn(engine)

    found, _ = play([server], heals)
    assert found.ids == tuple(draw(0, [3, 4], 8, [STOP]))
    assert counted["retries"] == 1
    with pytest.raises(EngineError, match=rf"{said}.*It was asked 3 times"):
        play([server], stays)


def test_a_request_that_does_not_fit_is_never_sent(doubles, play):
    server = doubles()

    async def work(engine):
        assert engine.max_context == 100
        wrong = [
            (request(0, prompt=(3,) * 95), "95 \\+ 8 tokens; the context has 100"),
            (request(0, prompt=(VOCABULARY,)), "outside the vocabulary"),
            (request(0, prompt=()), "0 prompt tokens"),
        ]
        for asked, said in wrong:
            with pytest.raises(EngineError, match=said):
                await engine.generate(asked)

    play([server], work)
    assert len(server.asked) == 1


def test_a_killed_server_s_episodes_go_on_elsewhere_from_the_same_tokens(doubles, play):
    (alone, _), _ = play([doubles()], all_turns())
    dying, other = doubles(), doubles()
    dying.seconds = other.seconds = 0.05

    async def work(engine):
        playing = asyncio.create_task(all_turns()(engine))
        await asyncio.sleep(0.12)
        await asyncio.to_thread(dying.close)
        return await playing

    (found, counters), told = play([dying, other], work)
    assert found == alone
    assert counters["moved_sessions"] >= 1
    assert counters["servers_lost"] == 1
    assert f"{dying.url}: given up" in told[0]


def test_a_server_that_hangs_is_given_up_and_its_episodes_go_on_elsewhere(doubles, play):
    (alone, _), _ = play([doubles()], all_turns())
    hanging, other = doubles(), doubles()

    async def work(engine):
        hanging.faults.add("hang turns")
        return await all_turns()(engine)

    (found, counters), told = play([hanging, other], work)
    assert found == alone
    assert (counters["servers_lost"], counters["moved_sessions"]) == (1, 8)
    assert "no answer within 2 s for 8 tokens" in told[0]


def test_a_server_that_answers_nothing_at_all_is_noticed_long_before_its_turn_is_late(
    doubles, play
):
    hanging, other = doubles(), doubles()

    async def work(engine):
        hanging.faults.add("hang")
        return await all_turns(count=4, turns=1)(engine)

    (found, counters), told = play([hanging, other], work, request_timeout=0.5, token_timeout=60)
    assert [said[0].ids for said in found] == [tuple(draw(m, [3, 4], 8, [STOP])) for m in range(4)]
    assert (counters["servers_lost"], counters["moved_sessions"]) == (1, 2)
    assert "it hangs: /health: no answer within 0.5 s" in told[0]


def test_one_look_tells_of_a_server_that_hangs_to_all_who_wait_for_it(doubles, play):
    hanging, other = doubles(), doubles()

    async def work(engine):
        hanging.faults.add("hang")
        await all_turns(count=12, turns=1)(engine)
        return hanging.came.count("/health")

    looks, told = play([hanging, other], work, request_timeout=0.9, token_timeout=60)
    assert looks == 1
    assert sum("given up" in line for line in told) == 1


def test_when_all_are_gone_one_line_says_why_and_how_to_go_on(doubles, play):
    servers = [doubles(), doubles()]

    async def work(engine):
        for server in servers:
            await asyncio.to_thread(server.close)
        await one_turn(engine)

    with pytest.raises(EngineError, match="no server is left") as caught:
        play(servers, work)
    said = str(caught.value)
    assert all(server.url in said for server in servers)
    assert "agentrl train --resume" in said
    assert "\n" not in said


def test_an_episode_that_is_given_up_leaves_room_for_others(doubles, play):
    server = doubles()

    async def work(engine):
        server.faults.add("hang turns")
        asking = asyncio.create_task(one_turn(engine))
        await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        server.heal()
        return await engine.generate(request(1))

    found, _ = play([server], work, requests=1)
    assert found.ids == tuple(draw(1, [3, 4], 8, [STOP]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("localhost:8000", "no address of a server"),
        ("ftp://a", "no address"),
        ("http://", "no address"),
        ("http://a:b", "no address"),
        ("http://a:8000/v1", "/v1 is too much"),
        ("http://a?x=1", r"\?x=1 is too much"),
        ("http://me:secret@a", "a name or a password"),
    ],
)
def test_an_address_is_a_scheme_a_host_and_a_port(text, said):
    with pytest.raises(UsageError, match=said) as caught:
        addresses([text])
    assert "secret" not in str(caught.value)


def test_addresses_are_told_apart_without_their_last_slash():
    assert addresses(["http://A:1/", "https://[::1]:2"]) == ("http://a:1", "https://[::1]:2")
    with pytest.raises(UsageError, match="given twice"):
        addresses(["http://a:1", "http://a:1/"])
    assert [is_loopback(u) for u in ("http://127.0.0.1:1", "https://[::1]", "http://localhost")]
    assert not is_loopback("http://10.0.0.1:1")


def test_a_server_that_cannot_be_trained_with_is_refused_before_the_run_begins(doubles, play):
    off, raw = doubles(dev=False), doubles()
    raw.mode = "raw_logprobs"
    page = doubles()
    page.faults.add("no vLLM")
    gone = doubles()
    gone.close()
    for server, said in (
        (off, "Its developer mode is off.*VLLM_SERVER_DEV_MODE=1"),
        (raw, "log-probs are raw_logprobs.*--logprobs-mode processed_logprobs"),
        (page, f"--url {page.url}: /v1/models: it answered 404.*There is no vLLM server"),
        (gone, "no server answers there.*agentrl serve"),
    ):
        with pytest.raises(UsageError, match=said):
            play([server], one_turn)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"weights": "lora"}, "there is no adapter. Add --model.lora_rank 16"),
        (
            {"weights": "lora", "adapted": True},
            r"--url http.*by lora\. Start it with `agentrl serve --model.lora_rank 16 --engine",
        ),
        ({"weights": "ipc"}, "--engine.weights ipc: .*Use folder|--url http.*by ipc"),
        (
            {"weights_folder": "/dev/null/x"},
            r"--engine.weights_folder /dev/null/x: cannot be written at /dev/null\.",
        ),
    ],
)
def test_weights_that_could_not_come_are_told_before_the_run_begins(doubles, play, settings, said):
    server = doubles()
    server.lora = False
    with pytest.raises(UsageError, match=said):
        play([server], one_turn, **settings)
    assert not server.asked


def test_a_server_with_a_model_of_other_shapes_is_refused_before_it_is_given_weights(
    doubles, play, tmp_path
):
    server = doubles()
    other = tmp_path / "other"
    other.mkdir()
    server.folder = str(other)
    (tmp_path / "model" / "config.json").write_text('{"hidden_size": 64, "use_cache": true}')
    (other / "config.json").write_text('{"hidden_size": 64, "use_cache": false}')
    play([server], one_turn)
    server.log.clear()
    (other / "config.json").write_text('{"text_config": {"hidden_size": 128}}')
    with pytest.raises(UsageError, match=f"it serves {other}, whose hidden_size is 128; the pol"):
        play([server], one_turn)
    assert "/collective_rpc" not in server.log


def test_two_names_of_one_server_are_told(doubles, tmp_path):
    one, other = doubles(), doubles()
    trained = Trained(tmp_path / "model", VOCABULARY, {}, adapted=False, context=100)
    same = f"http://localhost:{one.port}"
    with pytest.raises(UsageError, match=rf"--url {same}: the same server as {one.url}\."):
        start(EngineSection(name="vllm-server", urls=(one.url, same)), trained, print)
    other.name = one.name  # by chance
    start(EngineSection(name="vllm-server", urls=(one.url, other.url)), trained, print)


def test_where_no_server_ever_took_the_weights_it_does_not_say_to_go_on(doubles, play):
    server = doubles()
    server.faults.add("500 /collective_rpc")
    with pytest.raises(EngineError, match="None ever took this run's weights"):
        play([server], one_turn, patience=600.0)  # it waits for nothing
