"""How a GPU is divided between an update and the engine beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.config import TrainConfig
from agentrl.engines.room import OVERHEAD, RESIDUE, Demand, room_for, room_of, share_of
from agentrl.errors import UsageError
from agentrl.memory import Regime, Shape, footprint
from agentrl.memory.footprint import need
from tests.models import llama

GIB = 2**30
QWEN = Shape(36, 2560, 9728, 151936, 32, 8, 128, tied=True, qk_norm=True)
FULL = Regime("full", "bfloat16", checkpointing="layers")
DEMAND = Demand(tokens=16384, context=16384, live=256, sleeps=False)
EACH = 2 * 36 * 8 * 128 * 2
"""Bytes of one token's keys and values."""


@given(
    spare=st.integers(40 * GIB, 700 * GIB),
    tokens=st.integers(1, 65536),
    context=st.integers(16, 65536),
    live=st.integers(1, 1024),
)
def test_update_weights_and_cache_fit_together_or_it_is_refused(spare, tokens, context, live):
    try:
        room = room_for(QWEN, FULL, spare, Demand(tokens, context, live, sleeps=False))
    except UsageError:
        return
    update = need(footprint(QWEN, FULL, tokens).total)
    assert update + room.taken <= spare
    assert room.taken == QWEN.parameters * 2 + room.cache_bytes + OVERHEAD
    assert context * EACH <= room.cache_bytes <= live * context * EACH


def test_the_cache_takes_what_is_left_and_no_more_than_all_episodes_fill():
    tight, wide = (room_for(QWEN, FULL, size * GIB, DEMAND) for size in (140, 2000))
    assert tight.cache_bytes < wide.cache_bytes == 256 * 16384 * EACH
    fewer = room_for(QWEN, FULL, 2000 * GIB, replace(DEMAND, live=2))
    assert fewer.cache_bytes == 2 * 16384 * EACH


def test_a_sleeper_leaves_the_update_nearly_all_and_has_more_itself():
    awake = room_for(QWEN, FULL, 100 * GIB, DEMAND)
    asleep = room_for(QWEN, FULL, 100 * GIB, replace(DEMAND, sleeps=True))
    assert asleep.cache_bytes > awake.cache_bytes
    assert asleep.taken == RESIDUE


def test_memory_that_is_set_for_the_update_is_left_to_it():
    given_all = room_for(QWEN, FULL, 140 * GIB, replace(DEMAND, update_bytes=80 * GIB))
    predicted = need(footprint(QWEN, FULL, 16384).total)
    assert predicted != 80 * GIB
    assert given_all.taken <= 60 * GIB


def test_where_nothing_is_left_for_one_episode_it_says_what_to_lower():
    with pytest.raises(UsageError, match=r"cache of one episode of 16384 tokens\. Lower --roll"):
        room_for(QWEN, FULL, 60 * GIB, DEMAND)


def test_on_a_cpu_there_is_nothing_to_divide():
    assert room_of(TrainConfig(), llama()) is None
    assert share_of(TrainConfig(), llama()) == 0.0
