import json
from dataclasses import dataclass, field

import pytest

from agentrl.config import ModelSection, UpdateSection
from agentrl.errors import RunError, UsageError
from agentrl.forecast import Forecast, forecast_of, probe
from agentrl.memory.footprint import need
from tests.models import llama

GIB = 1024**3


def forecast(**update):
    section = UpdateSection.model_validate(update)
    return forecast_of(llama(), ModelSection(), section, longest=512)


@dataclass
class Device:
    """A learner on a device whose peaks are a line, and which has so much room."""

    forecast: Forecast
    floor: int = 10_000_000
    slope: int = 40_000
    room: int = 10**12
    exact: bool = True
    cap: int = 1
    tried: list[int] = field(default_factory=list)

    def rehearse(self, tokens: int, longest: int) -> bool:
        self.tried.append(tokens)
        peak = self.floor + self.slope * tokens
        if peak > self.room:
            return False
        self.forecast.observe(tokens, peak)
        return True


def test_without_a_limit_a_cpu_takes_micro_batches_of_a_fixed_width():
    assert forecast().cap == 8192
    assert forecast(tokens_per_micro_batch=300).cap == 300


def test_memory_decides_the_cap_before_anything_has_run():
    small, large = forecast(memory="40MiB").cap, forecast(memory="80MiB").cap
    assert 0 < small < large < 8192


def test_what_does_not_fit_is_refused_with_what_would():
    with pytest.raises(UsageError, match=r"an update of 512 tokens .* there are 1\.0 MiB"):
        forecast(memory="1MiB")
    with pytest.raises(UsageError, match="an update of 99999 tokens at a time"):
        forecast(memory="40MiB", tokens_per_micro_batch=99999)


def test_rehearsals_find_the_cap_that_a_device_really_allows():
    found = forecast(memory="1GiB")
    device = Device(found, slope=2 * 40_000)
    probe(device, found, 512)
    assert device.tried == sorted(device.tried)
    assert device.cap == found.cap
    assert need(device.floor + device.slope * device.cap) <= GIB
    assert device.cap > 0.8 * (GIB * 0.8 - device.floor) / device.slope or device.cap == 8192


def test_a_device_with_less_room_than_predicted_ends_with_what_fits():
    found = forecast(memory="1GiB")
    device = Device(found, slope=60_000, room=200_000_000)
    probe(device, found, 512)
    assert device.floor + device.slope * min(device.tried) <= device.room


def test_no_room_at_all_is_told():
    found = forecast(memory="1GiB")
    with pytest.raises(RunError, match="rehearsals found no room"):
        probe(Device(found, room=0), found, 512)


def test_nothing_is_rehearsed_where_peaks_of_a_micro_batch_cannot_be_read():
    found = forecast(memory="1GiB")
    device = Device(found, exact=False)
    probe(device, found, 512)
    assert (device.tried, device.cap) == ([], 1)


def test_what_was_observed_survives_a_checkpoint_and_nothing_else_does(tmp_path):
    found, again = forecast(), forecast()
    found.observe(100, 7_000_000)
    found.observe(1000, 9_000_000)
    found.save(tmp_path)
    again.load(tmp_path)
    assert again.peak(1000) == found.peak(1000) == 9_000_000
    other = forecast(checkpointing="layers")
    before = other.peak(1000)
    other.load(tmp_path)
    assert other.peak(1000) == before


def test_a_model_of_an_unknown_kind_is_trained_without_a_prediction(tmp_path):
    model = llama()
    model.config.model_type = "something_else"
    model.config.num_experts = 8
    found = forecast_of(model, ModelSection(), UpdateSection(), longest=512)
    assert (found.peak(100), found.cap) == (None, 8192)
    found.save(tmp_path)
    assert json.loads((tmp_path / "forecast.json").read_text()) is None
    found.load(tmp_path)
