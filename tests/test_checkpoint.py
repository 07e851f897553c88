import json
import os
import resource
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from agentrl import checkpoint
from agentrl.errors import RunError, UsageError
from agentrl.manifest import Manifest
from tests.mounts import can_mount, inside


@dataclass
class Number:
    value: int

    def save(self, folder: Path) -> None:
        (folder / "value.json").write_text(json.dumps(self.value))

    def load(self, folder: Path) -> None:
        self.value = json.loads((folder / "value.json").read_text())


@dataclass
class Bulky(Number):
    """As large as it is told to be."""

    size: int = 100_000

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / "bulk").write_bytes(b"x" * self.size)


class DiesWhileSaving:
    def save(self, folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError("disk full")

    def load(self, folder: Path) -> None:
        raise AssertionError("never saved")


@dataclass
class Looks(Number):
    """Sees what is there while it is being saved."""

    root: Path = Path()
    seen: list[str] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.seen = names(self.root)


def names(root):
    return sorted(p.name for p in root.iterdir() if not p.name.startswith("."))


def everything(root):
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_what_was_saved_is_loaded(tmp_path):
    checkpoint.save(tmp_path, 3, {"a": Number(1), "b": Number(2)}, keep=2)
    parts = {"a": Number(0), "b": Number(0)}
    assert checkpoint.load(checkpoint.newest(tmp_path), parts) == 3
    assert (parts["a"].value, parts["b"].value) == (1, 2)
    assert (tmp_path / "latest").read_text().strip() == "000003"


def test_only_the_newest_stay(tmp_path):
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, step, {"a": Number(step)}, keep=2)
    assert names(tmp_path) == ["000002", "000003", "latest"]


def test_the_best_stay_beside_the_newest(tmp_path):
    for step, accuracy in enumerate([0.1, 0.5, None, 0.5, 0.3, None, 0.2]):
        checkpoint.save(tmp_path, step, {"a": Number(step)}, keep=2, keep_best=2, accuracy=accuracy)
    assert names(tmp_path) == ["000001", "000003", "000005", "000006", "latest"]
    found = checkpoint.newest(tmp_path, 3)
    assert found.manifest.accuracy == 0.5


def test_old_ones_stay_until_the_new_one_is_there(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, {"a": Number(step)}, keep=2)
    part = Looks(3, tmp_path)
    checkpoint.save(tmp_path, 3, {"a": part}, keep=1)
    assert part.seen == ["000001", "000002", "latest"]
    assert names(tmp_path) == ["000003", "latest"]


def test_a_save_that_dies_leaves_the_older_checkpoint_and_nothing_else(tmp_path):
    checkpoint.save(tmp_path, 1, {"a": Number(1)}, keep=2)
    before = everything(tmp_path)
    with pytest.raises(RunError, match=r"saved; 000001 of 0\.0 MiB stays .* disk full"):
        checkpoint.save(tmp_path, 2, {"a": Number(2), "b": DiesWhileSaving()}, keep=2)
    assert everything(tmp_path) == before
    with pytest.raises(RunError, match="there is no older one"):
        checkpoint.save(tmp_path / "new", 2, {"b": DiesWhileSaving()}, keep=2)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "cut": (lambda c: cut(c / "a/value.json"), "a/value.json has 2 bytes instead of 3"),
    "flipped": (lambda c: flip(c / "a/value.json"), "a/value.json is not what was written"),
    "gone": (lambda c: (c / "a/value.json").unlink(), "a/value.json is missing"),
    "part": (lambda c: shutil.rmtree(c / "a"), "a/value.json is missing"),
    "manifest": (lambda c: (c / "manifest.json").write_text("{"), "manifest is missing or broken"),
    "no manifest": (lambda c: (c / "manifest.json").unlink(), "manifest is missing or broken"),
    "another's": (
        lambda c: shutil.copy(c.with_name("000001") / "manifest.json", c),
        "its manifest is that of step 1",
    ),
    "no json": (lambda c: (c / "manifest.json").write_text("[]"), "manifest is missing or broken"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_newest_checkpoint_is_passed_over_and_kept(tmp_path, damage):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, {"a": Number(100 + step)}, keep=2)
    harm, words = DAMAGE[damage]
    harm(tmp_path / "000002")
    found = checkpoint.newest(tmp_path)
    assert (found.path.name, found.step) == ("000001", 1)
    assert words in found.warning
    assert found.warning.endswith("000001 is whole and is used.")
    with pytest.raises(UsageError, match=rf"no whole checkpoint of step 2\. 000002: .*{words}"):
        checkpoint.newest(tmp_path, 2)
    checkpoint.put_away(found)
    assert names(tmp_path)[:2] == ["000001", "000002.damaged"]
    checkpoint.save(tmp_path, 2, {"a": Number(3)}, keep=1)
    assert names(tmp_path) == ["000002", "000002.damaged", "latest"]


def test_where_none_is_whole_each_is_named_with_what_is_wrong(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, {"a": Number(step)}, keep=2)
    (tmp_path / "000001/a/value.json").unlink()
    cut(tmp_path / "000002/a/value.json")
    before = everything(tmp_path)
    with pytest.raises(UsageError) as refused:
        checkpoint.newest(tmp_path)
    text = str(refused.value)
    assert "000001: a/value.json is missing" in text
    assert "000002: a/value.json has 0 bytes instead of 1" in text
    assert "\n" not in text
    assert everything(tmp_path) == before


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
@limits(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_flipped_bit_of_a_manifest_changes_nothing_that_is_believed(tmp_path_factory, at, bit):
    root = tmp_path_factory.mktemp("flip")
    parts = {"a": Number(7)}
    folder = checkpoint.save(root, 2, parts, keep=2, accuracy=0.5, about={"versions": {"x": "1"}})
    path, whole = folder / "manifest.json", Manifest.read(folder)
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    if checkpoint.fault(folder) is None:
        assert Manifest.read(folder) == whole


def test_a_manifest_of_an_older_version_is_read(tmp_path):
    folder = checkpoint.save(tmp_path, 2, {"a": Number(7)}, keep=2, accuracy=0.5)
    told = json.loads((folder / "manifest.json").read_text())
    del told["manifest_sha256"]
    (folder / "manifest.json").write_text(json.dumps(told))
    assert checkpoint.newest(tmp_path).manifest.accuracy == 0.5


def test_latest_that_names_nothing_is_told_and_the_newest_is_used(tmp_path):
    checkpoint.save(tmp_path, 1, {"a": Number(1)}, keep=2)
    (tmp_path / "latest").write_text("000009\n")
    found = checkpoint.newest(tmp_path)
    assert found.step == 1
    assert "latest names 000009, which is not there" in found.warning
    (tmp_path / "latest").unlink()
    assert checkpoint.newest(tmp_path).warning == ""


def test_a_missing_part_is_an_error_not_a_fresh_start(tmp_path):
    checkpoint.save(tmp_path, 1, {"a": Number(1)}, keep=1)
    part = Number(0)
    with pytest.raises(RunError, match="no part 'optimizer'"):
        checkpoint.load(checkpoint.newest(tmp_path), {"a": part, "optimizer": Number(0)})
    assert part.value == 0


def test_a_leftover_of_a_killed_save_is_no_checkpoint(tmp_path):
    checkpoint.save(tmp_path, 1, {"a": Number(1)}, keep=1)
    shutil.copytree(tmp_path / "000001", tmp_path / f".000002.{os.getpid()}")
    assert checkpoint.find(tmp_path).name == "000001"


def test_a_step_that_was_not_kept_is_named_with_those_that_were(tmp_path):
    checkpoint.save(tmp_path, 4, {"a": Number(1)}, keep=1)
    with pytest.raises(UsageError, match=r"step 9\. It has 000004"):
        checkpoint.find(tmp_path, 9)


def test_what_a_killed_process_left_is_swept_away(tmp_path):
    checkpoint.save(tmp_path, 3, {"a": Number(1)}, keep=2)
    (tmp_path / ".000002.99999" / "a").mkdir(parents=True)
    (tmp_path / ".latest.99999").write_text("0000")
    shutil.copytree(tmp_path / "000003", tmp_path / ".000003.old")
    checkpoint.save(tmp_path, 3, {"a": Number(2)}, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000003", "latest"]
    part = {"a": Number(0)}
    checkpoint.load(checkpoint.newest(tmp_path), part)
    assert part["a"].value == 2


def test_one_that_was_being_replaced_when_its_process_was_killed_is_still_there(tmp_path):
    checkpoint.save(tmp_path, 3, {"a": Number(1)}, keep=1)
    (tmp_path / "000003").rename(tmp_path / ".000003.old")
    found = checkpoint.newest(tmp_path)
    assert (found.step, found.path.name) == (3, ".000003.old")
    with pytest.raises(RunError, match=r"000003 of .* stays"):
        checkpoint.save(tmp_path, 4, {"b": DiesWhileSaving()}, keep=1)
    assert checkpoint.newest(tmp_path).path.name == "000003"


class Moving(Number):
    """Holds a file that is no longer there once the folder has its name."""

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / "again").symlink_to(folder.absolute() / "value.json")


def test_what_cannot_be_read_back_is_no_checkpoint_and_removes_none(tmp_path):
    checkpoint.save(tmp_path, 1, {"a": Number(1)}, keep=1)
    with pytest.raises(RunError, match=r"a/again is missing\. What was written is not what is"):
        checkpoint.save(tmp_path, 2, {"a": Moving(2)}, keep=1)
    assert (tmp_path / "latest").read_text() == "000001\n"
    assert checkpoint.newest(tmp_path).step == 1


@contextmanager
def files_of_at_most(size):
    """Every write beyond this fails in this process, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 10, 99_999])
def test_where_there_is_no_room_the_older_stays_and_it_is_one_line(tmp_path, room):
    checkpoint.save(tmp_path, 1, {"a": Bulky(1)}, keep=1)
    before = everything(tmp_path)
    with files_of_at_most(room), pytest.raises(RunError, match=r"000001 of .* stays"):
        checkpoint.save(tmp_path, 2, {"a": Bulky(2)}, keep=1)
    assert everything(tmp_path) == before
    checkpoint.save(tmp_path, 2, {"a": Bulky(2)}, keep=1)
    assert checkpoint.newest(tmp_path).step == 2


ON_A_SMALL_DISK = """
import json, sys
from pathlib import Path
from agentrl import checkpoint, disk, record
from agentrl.errors import RunError, UsageError
from tests.test_checkpoint import Bulky

run = record.RunFolder(Path(sys.argv[1]))
"""
FILLS = """
run.write_run({"status": "stopped"})
for step in (1, 2, 3, 4):
    try:
        checkpoint.save(run.checkpoints, step, {"a": Bulky(step, 300_000)}, keep=9)
    except RunError as error:
        print(error)
        break
print(checkpoint.newest(run.checkpoints).step)
try:
    while True:
        run.write_metrics({"step": 1, "text": "x" * 1000})
except RunError as error:
    print(error)
rows = list(disk.rows(run.metrics))
print(len(rows) > 10 and run.metrics.read_bytes().endswith(b"\\n"))
try:
    run.write_run({"status": "failed", "text": "x" * 1000})
except RunError as error:
    print(error)
print(run.read_run()["status"])
"""
IS_REFUSED = """
for refused in (lambda: record.hold(run), lambda: record.check_free(sys.argv[1], "new")):
    try:
        refused()
    except UsageError as error:
        print(error)
print(checkpoint.newest(run.checkpoints).step, run.read_run()["status"])
"""


def test_a_full_and_then_read_only_disk_loses_nothing(tmp_path):
    if not can_mount(tmp_path):
        pytest.skip("this user may not mount a file system of its own")
    said = inside(
        tmp_path, ON_A_SMALL_DISK + FILLS, size="1m", then=ON_A_SMALL_DISK + IS_REFUSED
    ).splitlines()
    full, step, metrics, whole, run, status, hold, free, last = said
    assert "000004: it could not be saved; 000003 of 0.3 MiB stays" in full
    assert "No space left on device" in full
    assert (step, whole, status) == ("3", "True", "stopped")
    assert "metrics.jsonl: cannot be written" in metrics
    assert "run.json: cannot be written" in run
    assert "cannot be written (Read-only file system)" in hold
    assert "cannot be written" in free
    assert last == "3 stopped"
