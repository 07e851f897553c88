"""A bank sets rows aside ahead of time, takes memory as it is written to, and keeps a little."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from agentrl.engines.bank import KEPT_BYTES, Bank, Shape, row_tokens

SHAPE = Shape(layers=4, heads=4, width=64, dtype=torch.float32, device=torch.device("cpu"))
ROWS = 64


def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what the process holds")
def test_memory_is_taken_where_a_row_is_written_to() -> None:
    bank, before = Bank(SHAPE), resident()
    bank.take([1024], room=1 << 40, expected=ROWS)
    (slab,) = bank.slabs
    assert slab.bytes == ROWS * 1024 * SHAPE.bytes_per_token
    token = torch.ones(ROWS, SHAPE.heads, SHAPE.width)
    rows, first = torch.arange(ROWS), torch.zeros(ROWS, dtype=torch.long)
    for layer in range(SHAPE.layers):
        slab.write(layer, rows, first, token, token)
    assert resident() - before < slab.bytes / 8


def test_rows_that_come_one_by_one_lie_in_one_slab_as_far_as_there_is_room() -> None:
    row = row_tokens(100) * SHAPE.bytes_per_token
    bank = Bank(SHAPE)
    spots = [bank.take([100], room=1 << 40, expected=8)[0] for _ in range(8)]
    assert {spot.slab for spot in spots} == set(bank.slabs)
    assert [spot.row for spot in spots] == list(range(8))
    tight = Bank(SHAPE)
    tight.take([100], room=3 * row, expected=8)
    assert tight.bytes == 3 * row


@pytest.mark.parametrize(("size", "kept"), [(KEPT_BYTES // 2, True), (2 * KEPT_BYTES, False)])
def test_a_slab_that_is_gone_is_used_again_if_it_was_small(size: int, kept: bool) -> None:
    bank = Bank(SHAPE)
    (spot,) = bank.take([size // SHAPE.bytes_per_token])
    data = spot.slab.data
    bank.give(spot)
    assert not bank.slabs
    (again,) = bank.take([size // SHAPE.bytes_per_token])
    assert (again.slab.data is data) is kept
