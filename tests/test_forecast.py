import json
import weakref
from dataclasses import dataclass, field

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from agentrl.config import UpdateSection
from agentrl.errors import RunError, UsageError
from agentrl.forecast import Forecast, forecast_of, probe
from agentrl.memory.footprint import need
from agentrl.sample import Sample
from agentrl.sections import ModelSection
from agentrl.update import Learner
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


class Account(TorchDispatchMode):
    """A gauge for tests: bytes of all tensors that are alive, counted as they come and go."""

    exact = True

    def __init__(self, held: int) -> None:
        super().__init__()
        self.live = self.highest = held
        self.known: set[int] = set()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        for value in tree_iter(out):
            if isinstance(value, torch.Tensor):
                self.take(value.untyped_storage())
        return out

    def take(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.live += size
            self.highest = max(self.highest, self.live)
            weakref.finalize(storage, self.drop, key, size)

    def drop(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.live -= size

    def reset(self) -> None:
        self.highest = self.live

    def peak(self) -> int:
        return self.highest


def test_a_real_learner_is_rehearsed_until_its_real_peaks_fill_the_memory():
    model = llama()
    memory = "24MiB"
    found = forecast_of(model, ModelSection(), UpdateSection(memory=memory), longest=64)
    account = Account(16 * sum(p.numel() for p in model.parameters()))
    learner = Learner(model, lr=1e-3, gauge=account, observe=found.observe)
    with account:
        probe(learner, found, 64)
        rows = [Sample((1,) * 64, (0,) * 4 + (1,) * 60, (-1.0,) * 64, 1.0)]
        report = learner.step(rows * (learner.cap // 64 * 3), 3)
    assert len(found.calibration.seen) >= 2
    assert report.micro_batches == 3
    assert 0.5 * 24 * 1024**2 < report.peak_bytes <= 24 * 1024**2
    assert report.peak_bytes == pytest.approx(found.peak(report.widest), rel=0.1)


@pytest.mark.parametrize("checkpointing", ["none", "layers"])
def test_rows_that_share_a_prompt_take_no_more_than_their_tokens_were_predicted_to(checkpointing):
    def peak(model, rows):
        account = Account(16 * sum(p.numel() for p in model.parameters()))
        learner = Learner(model, lr=1e-3, gauge=account, checkpointing=checkpointing)
        with account:
            return learner.step(rows, len(rows))

    prompt, own = 400, 10
    mask = (0,) * prompt + (1,) * own
    rows = [
        Sample((*(3,) * prompt, *(4 + i,) * own), mask, (-1.0,) * len(mask), 1.0) for i in range(24)
    ]
    report = peak(llama(), rows)
    assert report.widest == prompt + 24 * own
    alone = [Sample((3,) * 640, (0,) * 400 + (1,) * 240, (-1.0,) * 640, 1.0)]
    assert report.peak_bytes <= 1.15 * peak(llama(), alone).peak_bytes
