import pytest

from agentrl.errors import UsageError
from agentrl.schedule import KNOWN, refuse_in_waves, schedule_of


def test_left_alone_the_transformers_engine_plays_in_waves_and_the_others_stream():
    found = {engine: schedule_of(engine, "auto") for engine in KNOWN}
    assert found.pop("transformers") == "waves"
    assert set(found.values()) == {"stream"}


def test_every_engine_streams_where_it_is_asked_to():
    assert {schedule_of(engine, "stream") for engine in KNOWN} == {"stream"}


@pytest.mark.parametrize("engine", ["vllm", "vllm-server", "scripted"])
def test_an_engine_with_batches_of_its_own_refuses_waves_in_one_line(engine):
    with pytest.raises(UsageError, match=f"engine {engine} forms its own batches") as caught:
        schedule_of(engine, "waves")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("oversample", "requests", "named"),
    [(2, 0, "--rollout.oversample 2"), (0, 8, "--rollout.requests_at_once 8")],
)
def test_waves_refuse_what_only_a_stream_can_do(oversample, requests, named):
    with pytest.raises(UsageError, match=named):
        refuse_in_waves(oversample=oversample, requests=requests)


def test_waves_take_the_defaults():
    refuse_in_waves(oversample=0, requests=0)
