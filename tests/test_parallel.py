"""Ranks agree, or end together; two of them learn what one learns."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agentrl.errors import RunError, UsageError
from agentrl.oom import OutOfMemory
from agentrl.parallel import MODES, SINGLE, replicated, single, together
from agentrl.update import Learner
from tests import ranks as jobs
from tests.models import llama
from tests.ranks import Ranks, results
from tests.rows import SAMPLES, sample

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    ranks = Ranks(tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()


def alone(steps: int = 1, samples: Any = SAMPLES, **options: Any) -> tuple[list[Any], Any]:
    learner = Learner(llama(), **{"lr": 1e-3, "grad_norm": 1e9} | options)
    found: list[torch.Tensor] = []
    learner._optimizer.register_step_pre_hook(
        lambda o, *_: found.append(
            torch.cat([p.grad.flatten() for p in o.param_groups[0]["params"]]).clone()
        )
    )
    reports = [learner.step(samples, len(samples)) for _ in range(steps)]
    return found, reports[-1]


def close(left: torch.Tensor, right: torch.Tensor, tolerance: float) -> bool:
    return bool((left - right).norm() <= tolerance * right.norm())


def test_flags_numbers_and_objects_reach_every_rank(two: Ranks) -> None:
    told = (True, False, 9, [{"rank": 0}, {"rank": 1}], ["from", 0])
    assert results(two.ask(jobs.small_talk)) == [told, told]


def test_gradients_are_summed_alike_whatever_their_size_and_type(two: Ranks) -> None:
    everything = [[True] * 6] * 2
    left, right = results(two.ask(jobs.add_up, everything))
    assert all(torch.equal(a, b) for a, b in zip(left, right, strict=True))
    parts = []
    for rank in range(2):
        draw = torch.Generator().manual_seed(rank)
        parts.append([torch.rand(g.shape, generator=draw).to(g.dtype) for g in left])
    assert all(torch.equal(g, a + b) for g, a, b in zip(left, *parts, strict=True))


def test_a_gradient_that_one_rank_lacks_is_zero_there_and_one_that_all_lack_stays_none(
    two: Ranks,
) -> None:
    there = [[True, False, True, False, True, True], [True, True, False, False, True, True]]
    left, right = results(two.ask(jobs.add_up, there))
    assert [g is None for g in left] == [False, False, False, True, False, False]
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(left, right, strict=True))
    assert left[1].any()
    assert left[2].any()


def test_what_fails_on_one_rank_ends_the_work_of_all(two: Ranks) -> None:
    mine, other = two.ask(jobs.fail_on, 0, ValueError("a bad plan"))
    assert mine == ("ValueError", "a bad plan")
    assert other[0] == "RunError"
    assert "rank 0 failed" in other[1]
    assert "a bad plan" in other[1]
    assert results(two.ask(jobs.fail_on, 2, ValueError())) == [[0, 1], [0, 1]]


def test_memory_that_runs_out_on_one_rank_is_news_on_all_and_holds_no_tensor(two: Ranks) -> None:
    answers = two.ask(jobs.fail_on, 1, torch.OutOfMemoryError("tried 3 GiB"))
    assert [kind for kind, _ in answers] == ["OutOfMemory"] * 2
    assert all("tried 3 GiB" in text for _, text in answers)
    assert results(two.ask(jobs.is_light)) == [True, True]


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_two_ranks_find_the_gradient_and_the_numbers_of_one(two: Ranks, loss: str) -> None:
    (expected,), report = alone(loss=loss)
    for cap in (1000, 48, 27):
        options = {"options": {"loss": loss, "tokens_per_micro_batch": cap}}
        for found in results(two.ask(jobs.train_options, SAMPLES, options)):
            assert close(found["gradients"][0], expected, 1e-5)
            (ours,) = found["reports"]
            for name in ("loss", "grad_norm", "k3", "max_gap", "entropy", "clip_fraction"):
                assert getattr(ours, name) == pytest.approx(getattr(report, name), rel=1e-5)
            assert (ours.tokens, ours.trained_tokens) == (report.tokens, report.trained_tokens)


def test_ranks_stay_equal_to_the_bit_over_steps(two: Ranks) -> None:
    left, right = results(two.ask(jobs.train_options, SAMPLES, {"steps": 3}))
    assert torch.equal(left["weights"], right["weights"])
    assert torch.equal(left["moments"], right["moments"])
    assert left["reports"] == right["reports"]


def test_a_rank_without_rows_keeps_step_with_a_dummy_that_adds_nothing(two: Ranks) -> None:
    (expected,), report = alone(samples=SAMPLES[:1])
    for found in results(two.ask(jobs.train_options, SAMPLES[:1], {})):
        assert close(found["gradients"][0], expected, 1e-6)
        assert found["reports"][0].loss == report.loss
        assert found["reports"][0].micro_batches == 1


def test_ranks_start_from_the_weights_of_the_first(two: Ranks) -> None:
    left, right = results(two.ask(jobs.train_options, SAMPLES, {"seeds": (0, 5)}))
    same, _ = results(two.ask(jobs.train_options, SAMPLES, {}))
    assert torch.equal(left["weights"], right["weights"])
    assert torch.equal(left["weights"], same["weights"])


def test_a_gradient_that_is_not_finite_on_one_rank_makes_all_skip(two: Ranks) -> None:
    broken = [replace(SAMPLES[0], advantage=math.nan), *SAMPLES[1:]]
    untouched = torch.cat([p.detach().flatten() for p in llama().parameters()])
    for found in results(two.ask(jobs.train_options, broken, {})):
        assert found["reports"][0].skipped
        assert found["skipped"] == 1
        assert torch.equal(found["weights"], untouched)
        assert not found["moments"].any()


@pytest.mark.parametrize("where", ["forward", "backward", "optimizer"])
def test_an_out_of_memory_on_one_rank_is_redone_by_all_with_the_same_result(
    two: Ranks, where: str
) -> None:
    options = {"steps": 2, "options": {"tokens_per_micro_batch": 39}}
    expected, _ = results(two.ask(jobs.train_options, SAMPLES, options))
    left, right = results(two.ask(jobs.train_options, SAMPLES, options | {"oom": where}))
    assert torch.equal(left["weights"], right["weights"])
    assert torch.equal(left["moments"], right["moments"])
    for found in (left, right):
        assert [r.oom_retries for r in found["reports"]] == [1, 0]
        assert close(found["gradients"][0], expected["gradients"][0], 1e-6)
        assert close(found["weights"], expected["weights"], 1e-5)
        assert found["reports"][0].loss == pytest.approx(expected["reports"][0].loss, rel=1e-6)
        assert found["cap"] == 27


def test_when_one_rank_has_no_room_for_a_single_row_all_end_with_the_numbers(two: Ranks) -> None:
    for kind, text in two.ask(jobs.train_without_room, [SAMPLES[2]] * 4):
        assert kind == "RunError"
        assert "a micro-batch of 27 tokens, the fewest that a row of 27 allows" in text
        assert "CUDA out of memory" in text
        assert "update.checkpointing" in text


def test_a_plan_that_one_rank_cannot_make_ends_all(two: Ranks) -> None:
    """Before any of them waits for gradients of the other."""
    too_long = [SAMPLES, [*SAMPLES[:-1], sample(1, 60, 3, 1.0)]]
    first, second = two.ask(jobs.train_as_told, too_long, [50, 50])
    assert first[0] == second[0] == "RunError"
    assert "rank 1 failed" in first[1]
    assert "row 6 has 67 tokens, above the cap of 50" in second[1]


def test_ranks_with_different_samples_are_told(two: Ranks) -> None:
    for kind, text in two.ask(jobs.train_as_told, [SAMPLES, SAMPLES[1:]], [50, 50]):
        assert kind == "RunError"
        assert "different samples" in text


def test_the_lowest_cap_of_any_rank_holds_for_all(two: Ranks) -> None:
    reports = results(two.ask(jobs.train_as_told, [SAMPLES] * 2, [1000, 27]))
    assert [r.cap for r in reports] == [27, 27]


@pytest.mark.slow
def test_a_rank_that_ends_leaves_the_others_with_an_error(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, timeout=5.0)
    try:
        for pipe in ranks._pipes:
            pipe.send((jobs.end_alone, ()))
        kind, text = ranks.answer(0)
    finally:
        ranks.close()
    assert kind == "RunError"
    assert "rank 0 of 2: the other ranks did not answer" in text


def test_one_process_agrees_with_itself() -> None:
    assert SINGLE.all_ok(True)
    assert not SINGLE.all_ok(False)
    assert (SINGLE.least(3), SINGLE.every(4), SINGLE.broadcast(5)) == (3, [4], 5)
    assert together(SINGLE, lambda: 6) == [6]
    with pytest.raises(ZeroDivisionError):
        together(SINGLE, lambda: 1 // 0)


def test_a_single_update_under_a_launcher_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert single() is SINGLE
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UsageError, match="4 processes"):
        MODES["single"]()


def test_a_replicated_update_without_a_launcher_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="torchrun"):
        replicated()


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_PORT"])
def test_what_a_launcher_could_not_have_set_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    for variable, value in (good | {name: "x"}).items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=f"{name} 'x': not a number"):
        replicated()


def test_out_of_memory_ends_a_run_where_nobody_handles_it() -> None:
    assert issubclass(OutOfMemory, RunError)


LAUNCHED = """
from agentrl.parallel import MODES
from tests.ranks import small_talk
ranks = MODES["replicated"]()
print(ranks.rank, small_talk(ranks)[3], flush=True)
"""


@pytest.mark.slow
def test_processes_of_torchrun_find_each_other(tmp_path: Path) -> None:
    script = tmp_path / "talk.py"
    script.write_text(LAUNCHED)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(script)),
        ],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.split("\n"))[1:] == [
        f"{rank} [{{'rank': 0}}, {{'rank': 1}}]" for rank in range(2)
    ]
