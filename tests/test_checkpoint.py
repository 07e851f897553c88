import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentrl import checkpoint
from agentrl.errors import RunError, UsageError


@dataclass
class Number:
    value: int

    def save(self, folder: Path) -> None:
        (folder / "value.json").write_text(json.dumps(self.value))

    def load(self, folder: Path) -> None:
        self.value = json.loads((folder / "value.json").read_text())


class DiesWhileSaving:
    def save(self, folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError("disk full")

    def load(self, folder: Path) -> None:
        raise AssertionError("never saved")


def test_what_was_saved_is_loaded(tmp_path):
    checkpoint.save(tmp_path, 3, {"a": Number(1), "b": Number(2)}, keep=2)
    parts = {"a": Number(0), "b": Number(0)}
    assert checkpoint.load(checkpoint.find(tmp_path), parts) == 3
    assert (parts["a"].value, parts["b"].value) == (1, 2)
    assert (tmp_path / "latest").read_text().strip() == "000003"


def test_only_the_newest_stay(tmp_path):
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, step, {"a": Number(step)}, keep=2)
    assert sorted(p.name for p in tmp_path.glob("[0-9]*")) == ["000002", "000003"]


def test_a_save_that_dies_leaves_the_older_checkpoint_and_nothing_that_looks_whole(tmp_path):
    checkpoint.save(tmp_path, 1, {"a": Number(1)}, keep=2)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(tmp_path, 2, {"a": Number(2), "b": DiesWhileSaving()}, keep=2)
    assert checkpoint.find(tmp_path).name == "000001"
    assert (tmp_path / "latest").read_text().strip() == "000001"


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest"])
def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path, damage):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, {"a": Number(100 + step)}, keep=2)
    file = tmp_path / "000002" / "a" / "value.json"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "gone":
        file.unlink()
    else:
        (tmp_path / "000002" / "manifest.json").write_text("{")
    assert checkpoint.find(tmp_path).name == "000001"
    with pytest.raises(RunError, match="Resume from an older"):
        checkpoint.load(tmp_path / "000002", {"a": Number(0)})


def test_a_missing_part_is_an_error_not_a_fresh_start(tmp_path):
    checkpoint.save(tmp_path, 1, {"a": Number(1)}, keep=1)
    with pytest.raises(RunError, match="no part 'optimizer'"):
        checkpoint.load(tmp_path / "000001", {"optimizer": Number(0)})


def test_a_leftover_of_a_killed_save_is_no_checkpoint(tmp_path):
    checkpoint.save(tmp_path, 1, {"a": Number(1)}, keep=1)
    shutil.copytree(tmp_path / "000001", tmp_path / f".000002.{os.getpid()}")
    assert checkpoint.find(tmp_path).name == "000001"


def test_a_step_that_was_not_kept_is_named_with_those_that_were(tmp_path):
    checkpoint.save(tmp_path, 4, {"a": Number(1)}, keep=1)
    with pytest.raises(UsageError, match=r"step 9\. It has 000004"):
        checkpoint.find(tmp_path, 9)


def test_what_a_killed_process_left_is_swept_away(tmp_path):
    (tmp_path / ".000002.99999" / "a").mkdir(parents=True)
    (tmp_path / ".000001.old").mkdir()
    checkpoint.save(tmp_path, 3, {"a": Number(1)}, keep=2)
    checkpoint.save(tmp_path, 3, {"a": Number(2)}, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000003", "latest"]
    part = {"a": Number(0)}
    checkpoint.load(checkpoint.find(tmp_path), part)
    assert part["a"].value == 2
