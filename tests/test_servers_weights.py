"""New weights for servers: handed over, proved, or refused; servers that come back."""

from __future__ import annotations

import asyncio
import json

import pytest
import torch
from safetensors.torch import load_file

from agentrl.engines.servers.folder import STABLE, FolderCarrier, write_shards
from agentrl.engines.servers.label import Tag, Versions, read_spans
from agentrl.errors import WeightSyncError
from tests.server_double import ServerDouble, Weights, draw
from tests.server_play import doubles, play, request

__all__ = ["doubles", "play"]


def generate(engine, member=0, **options):
    return engine.generate(request(member, **options))


def steps(server):
    """What a hand-over asked of a server, without looks."""
    looks = ("/v1/models", "/server_info", "/version", "/health", "/weight_info")
    return [entry for entry in server.log if entry not in looks]


async def until(true):
    while not true():
        await asyncio.sleep(0.01)


def test_weights_are_given_while_the_server_is_paused_and_it_goes_on_in_any_case(doubles, play):
    server = doubles()

    async def work(engine):
        before = await generate(engine)
        server.log.clear()
        await engine.load(Weights(2.0), 2)
        after = await generate(engine)
        server.faults.add("500 /collective_rpc")
        return before, after, steps(server), await broken(engine)

    async def broken(engine):
        server.log.clear()
        with pytest.raises(WeightSyncError, match="weights of version 3: no server is left"):
            await engine.load(Weights(3.0), 3)
        with pytest.raises(WeightSyncError, match="nothing is sampled before"):
            await generate(engine)
        return steps(server)

    (before, after, order, failed), _ = play([server], work, patience=0.3)
    assert order == [
        "/pause?mode=wait",
        "/collective_rpc",
        "/reset_prefix_cache?reset_running_requests=false",
        "/update_weight_version",
        "/resume",
    ]
    assert failed == ["/pause?mode=wait", "/collective_rpc", "/resume"]
    assert (before.version, after.version) == (1, 2)
    assert after.ids == before.ids
    assert before.logprobs[0] - after.logprobs[0] == pytest.approx(1.0)


def test_turns_that_run_are_kept_over_a_hand_over_and_their_cache_is_not(doubles, play):
    server = doubles()
    server.seconds = 0.2

    async def work(engine):
        assert engine.inflight
        asking = asyncio.create_task(generate(engine))
        await until(lambda: server.running)
        await engine.load(Weights(2.0), 2)
        return await asking

    found, _ = play([server], work)
    assert found.version == 2  # it says so itself: it was asked only after the hand-over
    assert "/pause?mode=keep" in server.log
    assert "/reset_prefix_cache?reset_running_requests=true" in server.log


def test_without_a_word_on_versions_turns_end_before_weights_are_handed_over(doubles, play):
    server = doubles(scale_out=False)
    server.seconds = 0.2

    async def work(engine):
        assert not engine.inflight
        asking = asyncio.create_task(generate(engine))
        await until(lambda: server.running)
        await engine.load(Weights(2.0), 2)
        return await asking, await generate(engine)

    (found, later), _ = play([server], work)
    assert (found.version, later.version) == (1, 2)


def test_spans_become_versions_and_weights_of_others_none():
    tag = Tag("ab")
    spans = [
        {"version": tag.of(3), "start": 0, "end": 2},
        {"version": tag.of(4), "start": 2, "end": 5},
    ]
    assert read_spans(spans, 5, tag) == Versions(3, ((2, 4),))
    assert read_spans(spans[:1] * 1, 2, tag) == Versions(3)
    assert read_spans(spans, 6, tag) is None
    assert read_spans(spans[1:], 5, tag) is None
    assert read_spans([], 0, tag) is None
    for label in ("default", "3", Tag("cd").of(3), "agentrl-ab-x"):
        assert read_spans([{"version": label, "start": 0, "end": 2}], 2, tag) is None


@pytest.mark.parametrize("way", ["folder", "lora"])
def test_a_server_that_computes_with_other_weights_is_refused_by_name(doubles, play, way):
    good, other = doubles(), doubles()

    async def work(engine):
        other.faults.add("wrong")
        lying = Weights(2.0, told=2.5) if way == "lora" else Weights(2.0)
        with pytest.raises(WeightSyncError, match=r"version 2: its log-probs are not") as caught:
            await engine.load(lying, 2)
        with pytest.raises(WeightSyncError, match="the hand-over of version 2 failed"):
            await generate(engine)
        other.faults.clear()
        await engine.load(Weights(2.0), 2)
        return str(caught.value), await generate(engine)

    (said, found), _ = play([good, other], work, weights=way, adapted=way == "lora")
    assert said.startswith("engine vllm-server, http://127.0.0.1:")
    assert found.version == 2
    assert all(server.go_on.is_set() for server in (good, other))


def test_a_server_that_fails_in_a_hand_over_is_left_out_and_taken_in_when_it_proved_it(
    doubles, play
):
    good, failing = doubles(), doubles()

    async def work(engine):
        failing.faults.add("500 /update_weight_version")
        await engine.load(Weights(2.0), 2)
        first = [await generate(engine, member) for member in range(4)]
        assert not [s for s in engine.servers if s.url == failing.url and s.up]
        failing.faults.clear()
        await until(lambda: all(server.up for server in engine.servers))
        second = [await generate(engine, member + 4) for member in range(4)]
        return first + second, engine.counters()

    (found, counters), told = play([good, failing], work)
    assert {c.version for c in found} == {2}
    assert failing.go_on.is_set()
    assert (counters["servers_lost"], counters["servers_back"]) == (1, 1)
    assert "hand-over of version 2: /update_weight_version: it answered 500" in told[0]
    assert "taken in again with weights of version 2" in told[-1]
    assert len([b for b in failing.asked if len(b["token_ids"]) > 1]) >= 1


def test_a_turn_that_is_asked_for_in_a_hand_over_waits_for_the_new_weights(doubles, play):
    server = doubles()

    async def work(engine):
        server.reload_seconds = 0.2
        loading = asyncio.create_task(engine.load(Weights(2.0), 2))
        await until(lambda: "/pause?mode=wait" in server.log[-2:])
        found = await generate(engine)
        await loading
        return found

    found, _ = play([server], work)
    assert found.version == 2
    assert found.logprobs == pytest.approx([-(2.0 + i % 7 * 0.1) for i in found.ids])


def test_one_that_is_lost_in_a_hand_over_is_given_no_older_weights(doubles, play):
    slow, lost = doubles(), doubles()

    async def work(engine):
        slow.reload_seconds = 1.5  # longer than until a lost one is looked for
        lost.faults.add("500 /collective_rpc")
        loading = asyncio.create_task(engine.load(Weights(2.0), 2))
        await until(lambda: not all(server.up for server in engine.servers))
        lost.faults.clear()
        await loading
        early = lost.weight
        await until(lambda: all(server.up for server in engine.servers))
        return early

    early, told = play([slow, lost], work)
    assert (early, lost.weight) == (1.0, 2.0)
    assert "taken in again with weights of version 2" in told[-1]


def test_a_lost_server_does_not_hold_up_the_hand_over_of_others(doubles, play):
    good, hanging = doubles(), doubles()

    async def work(engine):
        engine._pool.give_up(next(s for s in engine.servers if s.url == hanging.url), "a test")
        hanging.faults.add("hang")
        async with asyncio.timeout(3.0):  # less than a look at it may take
            await engine.load(Weights(2.0), 2)
        return await generate(engine)

    found, _ = play([good, hanging], work)
    assert found.version == 2


def test_one_that_hangs_in_a_hand_over_is_given_up_long_before_its_time_is_over(doubles, play):
    good, hanging = doubles(), doubles()

    async def work(engine):
        hanging.faults.add("hang /collective_rpc")
        await engine.load(Weights(2.0), 2)
        hanging.heal()
        return await generate(engine)

    found, told = play([good, hanging], work, request_timeout=0.3, sync_timeout=600)
    assert found.version == 2
    assert "it hangs: /health: no answer within 0.3 s" in told[0]


def test_where_the_only_server_is_lost_in_a_hand_over_it_gets_these_weights_when_it_is_back(
    doubles, play
):
    server = doubles()
    again = []

    async def work(engine):
        await asyncio.to_thread(server.close)
        loading = asyncio.create_task(engine.load(Weights(2.0), 2))
        await until(lambda: not engine.servers[0].up)
        again.append(await asyncio.to_thread(ServerDouble, port=server.port))
        await loading
        return await generate(engine)

    found, _ = play([server], work, patience=20.0)
    again[0].close()
    assert (found.version, again[0].weight) == (2, 2.0)


def test_a_server_that_a_killed_run_left_paused_goes_on(doubles, play):
    server = doubles()
    server.go_on.clear()
    found, _ = play([server], generate)
    assert found.version == 1


def test_one_that_comes_back_as_another_is_not_taken_in(doubles, play):
    server, other = doubles(), doubles()

    async def work(engine):
        server.context = 50
        engine._pool.give_up(engine.servers[0], "a test")
        await asyncio.sleep(1.5)
        return await generate(engine), engine.servers[0].up

    (_, up), told = play([server, other], work)
    assert not up
    assert "is not taken in again: its context has 50 tokens, this run's 100" in told[-1]


def test_a_cache_that_is_kept_is_a_hand_over_that_failed(doubles, play):
    server = doubles()

    async def work(engine):
        server.faults.add("keeps cache")
        await engine.load(Weights(2.0), 2)

    with pytest.raises(WeightSyncError, match="it kept its prefix cache"):
        play([server], work)


def test_a_server_killed_in_mid_step_and_started_anew_gets_its_weights_before_it_is_asked(
    doubles, play
):
    server = doubles()
    server.seconds = 0.1
    again = []

    async def work(engine):
        playing = [asyncio.create_task(generate(engine, member)) for member in range(4)]
        await until(lambda: server.running)
        await asyncio.to_thread(server.close)
        again.append(await asyncio.to_thread(ServerDouble, port=server.port))
        return await asyncio.gather(*playing)

    found, told = play([server], work, patience=20.0)
    again[0].close()
    assert [c.ids for c in found] == [tuple(draw(m, [3, 4], 8, [1])) for m in range(4)]
    assert {c.version for c in found} == {1}
    assert again[0].weight == 1.0
    assert "taken in again with weights of version 1" in told[-1]


@pytest.mark.parametrize("scale_out", [True, False])
def test_weights_that_another_run_handed_over_are_noticed_and_ours_come_again(
    doubles, play, scale_out
):
    server = doubles(scale_out=scale_out)

    async def work(engine):
        server.weight, server.label = 7.0, Tag("another").of(1)
        return await generate(engine)

    found, told = play([server], work, patience=20.0)
    assert "labelled agentrl-another-1, not as they were handed over" in told[-2]
    assert found.logprobs == pytest.approx([-(1.0 + i % 7 * 0.1) for i in found.ids])


def test_a_version_is_whole_or_not_there_and_the_last_two_are_kept(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "model.safetensors").write_text("old")
    root = tmp_path / "shared"
    carrier = FolderCarrier(root, tmp_path / "model", {"w": "twin"}, 1.0)

    class Breaks(Weights):
        def items(self):
            yield from super().items()
            raise OSError("no space left")

    async def write():
        for version in range(4):
            await carrier.bring(Weights(float(version)), version)
            await carrier.tidy([])
        with pytest.raises(WeightSyncError, match="no space left"):
            await carrier.bring(Breaks(9.0), 9)

    asyncio.run(write())
    assert sorted(p.name for p in root.glob("[0-9]*")) == ["000002", "000003"]
    assert (carrier.folder(3) / STABLE).is_file()
    written = load_file(carrier.folder(3) / "model-00001.safetensors")
    assert {name: tensor.item() for name, tensor in written.items()} == {"w": 3, "twin": 3}
    assert not (carrier.folder(3) / "model.safetensors").exists()
    asyncio.run(carrier.close())
    assert not root.exists()


def test_big_weights_are_written_in_parts_of_bounded_size(tmp_path):
    tensors = {f"t{i}": torch.full((4,), float(i)) for i in range(5)}
    write_shards(iter(tensors.items()), tmp_path, most_bytes=32)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert sorted(p.name for p in tmp_path.glob("*.safetensors")) == [
        f"model-0000{i}.safetensors" for i in (1, 2, 3)
    ]
    for name, file in index.items():
        assert torch.equal(load_file(tmp_path / file)[name], tensors[name])


def test_an_adapter_stays_until_no_turn_uses_it_and_a_turn_ends_with_its_own(doubles, play):
    server = doubles()

    async def work(engine):
        server.seconds = 0.3
        asking = asyncio.create_task(generate(engine))
        await until(lambda: server.running)
        await engine.load(Weights(2.0), 2)
        during = sorted(server.adapters.values())
        old = await asking
        await engine.load(Weights(3.0), 3)
        return old, during, sorted(server.adapters.values()), await generate(engine)

    (old, during, after, new), _ = play([server], work, weights="lora", adapted=True)
    assert (old.version, new.version) == (1, 3)
    assert old.logprobs == pytest.approx([-(1.0 + i % 7 * 0.1) for i in old.ids])
    assert (during, after) == ([1.0, 2.0], [3.0])
    assert not server.adapters  # when the run ends nothing of it stays
    assert "/pause?mode=wait" not in server.log


def test_an_adapter_that_a_server_lost_is_loaded_again(doubles, play):
    server = doubles()

    async def work(engine):
        server.adapters.clear()
        return await generate(engine)

    found, told = play([server], work, weights="lora", adapted=True, patience=20.0)
    assert found.version == 1
    assert "it has lost the adapter" in told[0]


def test_adapters_are_the_way_where_there_are_any_and_servers_take_them(doubles, play):
    takes, not_both = doubles(), [doubles(), doubles()]
    not_both[1].lora = False
    play([takes], generate, adapted=True)
    play(not_both, generate, adapted=True)
    assert "/v1/load_lora_adapter" in takes.log
    assert "/collective_rpc" in not_both[0].log
