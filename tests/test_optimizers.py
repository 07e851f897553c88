"""Optimizers: all are AdamW, and what they remember survives a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from agentrl import optimizers
from agentrl.config import TrainConfig
from agentrl.errors import UsageError
from agentrl.move import allocate
from agentrl.optimizers import OPTIMIZERS, build

needs = pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="needs bitsandbytes")


def paged(parameters: list[Parameter]) -> Optimizer:
    """Off a CUDA device its pages are plain memory, and it says so."""
    import bitsandbytes

    return optimizers.paged(bitsandbytes, parameters, 1e-2, 0.1)


def named(name: str) -> Callable[[list[Parameter]], Optimizer]:
    return lambda parameters: build(name, parameters, lr=1e-2, weight_decay=0.1)


EVERY = [
    pytest.param(named("adamw"), id="adamw"),
    pytest.param(named("adamw8bit"), id="adamw8bit", marks=needs),
    pytest.param(
        paged,
        id="offloaded",
        marks=[needs, pytest.mark.filterwarnings("ignore:Paged optimizers are not supported")],
    ),
]


def points() -> list[Parameter]:
    """One small, one big enough for moments in 8 bits, one big enough to be paged."""
    draw = torch.Generator().manual_seed(0)
    return [Parameter(torch.randn(shape, generator=draw)) for shape in ((3,), (80, 64), (256, 512))]


def descend(made: Optimizer, held: list[Parameter], steps: int) -> None:
    """Towards another random point, with a gradient that depends on where one is."""
    draw = torch.Generator().manual_seed(1)
    goals = [torch.randn(p.shape, generator=draw) for p in held]
    for _ in range(steps):
        for parameter, goal in zip(held, goals, strict=True):
            parameter.grad = parameter.detach() - goal
        made.step()


@pytest.mark.parametrize("make", EVERY)
def test_it_goes_where_adamw_goes(make: Callable[[list[Parameter]], Optimizer]) -> None:
    ours, theirs, start = points(), points(), points()
    descend(make(ours), ours, 20)
    descend(torch.optim.AdamW(theirs, lr=1e-2, weight_decay=0.1), theirs, 20)
    for mine, other, before in zip(ours, theirs, start, strict=True):
        assert (mine - other).norm() < 0.1 * (other - before).norm()


@pytest.mark.parametrize("make", EVERY)
def test_what_it_remembers_comes_back_to_the_bit(
    make: Callable[[list[Parameter]], Optimizer], tmp_path: Path
) -> None:
    held = points()
    made = make(held)
    descend(made, held, 3)
    torch.save({"optimizer": made.state_dict(), "weights": held}, tmp_path / "state.pt")
    saved: dict[str, Any] = torch.load(tmp_path / "state.pt", weights_only=True)
    again = [Parameter(p.detach()) for p in saved["weights"]]
    other = make(again)
    groups = other.state_dict()["param_groups"]
    other.load_state_dict({**saved["optimizer"], "param_groups": groups})
    for optimizer, places in ((made, held), (other, again)):
        descend(optimizer, places, 3)
    assert all(torch.equal(a, b) for a, b in zip(held, again, strict=True))


@pytest.mark.parametrize("make", EVERY)
def test_states_that_are_made_early_change_nothing(
    make: Callable[[list[Parameter]], Optimizer],
) -> None:
    early, late = points(), points()
    first, second = make(early), make(late)
    allocate(first)
    assert all(torch.equal(a, b) for a, b in zip(early, late, strict=True))
    for made, held in ((first, early), (second, late)):
        descend(made, held, 3)
    assert all(torch.equal(a, b) for a, b in zip(early, late, strict=True))


@needs
def test_moments_in_eight_bits_take_a_quarter_of_the_memory() -> None:
    def taken(name: str) -> int:
        held = [Parameter(torch.zeros(256, 512))]
        made = build(name, held, lr=1e-2, weight_decay=0.0)
        descend(made, held, 1)
        return sum(t.nbytes for t in made.state[held[0]].values() if torch.is_tensor(t))

    assert taken("adamw8bit") < 0.27 * taken("adamw")


@pytest.mark.gpu
@needs
def test_paged_moments_stay_on_the_host_when_they_are_loaded(tmp_path: Path) -> None:
    held = [Parameter(p.detach().cuda()) for p in points()]
    made = build("offloaded", held, lr=1e-2, weight_decay=0.1)
    descend_there(made, held)
    torch.save(made.state_dict(), tmp_path / "state.pt")
    again = [Parameter(p.detach().clone()) for p in held]
    other = build("offloaded", again, lr=1e-2, weight_decay=0.1)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True, map_location="cpu"))
    assert all(other.state[again[2]][key].is_paged for key in ("state1", "state2"))
    for optimizer, places in ((made, held), (other, again)):
        descend_there(optimizer, places)
    assert all(torch.equal(a, b) for a, b in zip(held, again, strict=True))


def descend_there(made: Optimizer, held: list[Parameter]) -> None:
    for _ in range(3):
        for parameter in held:
            parameter.grad = parameter.detach() - 1.0
        made.step()


def test_offloading_on_a_cpu_is_refused_with_what_to_use() -> None:
    with pytest.raises(UsageError, match=r"offloaded: it moves moments off a CUDA.* Use adamw"):
        build("offloaded", points(), lr=1e-2, weight_decay=0.0)


def test_a_missing_package_is_one_line_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(
        UsageError, match=r"adamw8bit: it needs bitsandbytes.*pods\[bnb\]"
    ) as caught:
        build("adamw8bit", points(), lr=1e-2, weight_decay=0.0)
    assert "\n" not in str(caught.value)


def test_a_name_nearly_right_is_suggested() -> None:
    with pytest.raises(UsageError, match=r"Did you mean adamw8bit\?"):
        build("adamw_8bit", points(), lr=1e-2, weight_decay=0.0)


def test_the_settings_know_every_optimizer() -> None:
    for name in OPTIMIZERS:
        assert TrainConfig.model_validate({"update": {"optimizer": name}}).update.optimizer == name
