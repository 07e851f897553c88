"""Calibration: what a device showed corrects the formula, and nothing else does."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.memory import Calibration, Regime, footprint, most_tokens
from agentrl.memory.calibration import FIRST, GROWTH, signature
from agentrl.memory.footprint import need
from tests.shapes import shape

GIB = 1024**3
SMALL = shape("qwen2.5-0.5b")
START = Calibration.predicted(SMALL, Regime(), "a device")


def device(tokens, floor=12 * GIB, slope=250_000, embedding=13 * GIB):
    """Peak of a device whose fullest moment changes with the tokens."""
    return max(embedding, floor + slope * tokens)


def learned(*tokens):
    found = START
    for n in tokens:
        found = found.observe(n, device(n))
    return found


@pytest.mark.parametrize("name", ["qwen2.5-0.5b", "qwen3-4b", "smollm2-135m"])
def test_before_anything_was_seen_it_is_the_formula(name):
    found = Calibration.predicted(shape(name), Regime())
    for tokens in (1, 1000, 16384, 100_000, 1_000_000):
        formula = footprint(shape(name), Regime(), tokens).total
        assert found.peak(tokens) >= formula * 0.999
        assert found.peak(tokens) <= formula * 1.15 or tokens < 100_000


def test_two_probes_find_the_floor_and_the_slope_of_a_device():
    found = learned(8192, 32768)
    for tokens in (16384, 32768, 65536, 100_000):
        assert found.peak(tokens) == pytest.approx(device(tokens), rel=0.02)
        assert found.peak(tokens) >= device(tokens) or tokens < 32768


def test_a_peak_that_bends_upwards_is_not_extrapolated_flat():
    found = learned(64, 512, 2048)
    assert device(64) == device(2048)
    assert found.peak(65536) >= found.peak(2048) + 60_000 * found.predicted_slope


def test_a_profile_counts_backward_and_not_only_forward():
    forward, whole = 6 * GIB, 14 * GIB
    found = START.observe(16384, forward).observe(16384, whole)
    assert found.peak(16384) >= whole


def test_an_unseen_mode_starts_small_and_grows():
    memory = 80 * GIB
    first = START.most_tokens(memory)
    assert 0 < first <= most_tokens(SMALL, Regime(), memory) // FIRST
    tokens, caps = first, []
    found = START
    while not caps or tokens > caps[-1]:
        caps.append(tokens)
        found = found.observe(tokens, device(tokens))
        tokens = found.most_tokens(memory)
    assert len(caps) > 1
    assert all(after <= GROWTH * before for before, after in pairwise(caps))
    assert need(device(caps[-1])) <= memory < need(device(caps[-1] * 1.02))


def test_a_surprise_above_the_formula_lowers_the_cap_at_once():
    memory, tokens = 80 * GIB, 65536
    wasteful = START.observe(tokens, 70 * GIB)
    assert wasteful.most_tokens(memory) < START.observe(tokens, 20 * GIB).most_tokens(memory)


def test_a_cap_is_never_taken_over_by_another_signature():
    saved = json.loads(json.dumps(learned(8192, 32768).as_json()))
    own = signature(SMALL, Regime(), "a device")
    assert Calibration.from_json(saved, own) == learned(8192, 32768)
    others = [
        signature(shape("qwen3-0.6b"), Regime(), "a device"),
        signature(SMALL, Regime(), "another device"),
        *(
            signature(SMALL, regime, "a device")
            for regime in (
                Regime(mode="lora"),
                Regime(mode="lora", lora_rank=32),
                Regime(checkpointing="none"),
                Regime(kernels="compiled"),
                Regime(optimizer="adamw8bit"),
                Regime(dtype="float32"),
                Regime(head_bytes=1),
                Regime(shards=2),
            )
        ),
    ]
    assert len({own, *others}) == len(others) + 1
    assert all(Calibration.from_json(saved, other) is None for other in others)


def test_a_high_peak_of_a_tiny_batch_is_not_scaled_to_long_ones():
    tiny = START.observe(16, 8 * GIB)
    expected = 8 * GIB + 20_000 * tiny.predicted_slope
    assert tiny.peak(20_000) == pytest.approx(expected, rel=0.01)


def test_a_longer_batch_that_took_less_refutes_a_shorter_one():
    found = START.observe(16, 40 * GIB).observe(20_000, 13 * GIB)
    assert found.peak(20_000) == 13 * GIB
    assert found.peak(16) <= 13 * GIB


def test_a_peak_above_the_prediction_is_kept_in_reserve_and_fades():
    found = learned(8192, 32768)
    above = found.observe(20_000, found.peak(20_000) + GIB)
    assert above.residual == pytest.approx(GIB)
    for _ in range(50):
        above = above.observe(10_000, device(10_000))
    assert above.residual < GIB / 100


@given(
    st.lists(
        st.tuples(st.integers(1, 200_000), st.integers(GIB, 200 * GIB)), min_size=1, max_size=60
    ),
    st.integers(GIB, 300 * GIB),
)
def test_whatever_was_seen_more_tokens_never_take_less_and_the_cap_fits(seen, memory):
    found = START
    for tokens, peak in seen:
        found = found.observe(tokens, peak)
        assert found.peak(tokens) >= peak
    peaks = [found.peak(n) for n in (1, 10, 1000, 50_000, 200_000, 1_000_000)]
    assert peaks == sorted(peaks)
    most = found.most_tokens(memory)
    assert most == 0 or need(found.peak(most)) <= memory
    assert most <= GROWTH * found.longest
    assert len(found.seen) <= 33
