"""A resumed run is the run that it goes on with, or is refused with the reason."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from agentrl import checkpoint, disk, record
from agentrl.about import difference, versions
from agentrl.config import TrainConfig
from agentrl.errors import RunError, UsageError
from agentrl.events import Stepped, Warned
from agentrl.manifest import Manifest
from agentrl.record import RunFolder
from agentrl.resuming import newest, same_settings
from agentrl.tomlfile import dump_toml
from agentrl.training import train
from agentrl.world import FREE
from tests.kill_storm import ENVIRONMENT, config, differences, remains
from tests.test_checkpoint import files_of_at_most
from tests.test_ranks import started


def with_(config: TrainConfig, **sections: dict[str, Any]) -> TrainConfig:
    """The same with other settings, whether they make sense or not."""
    return config.model_copy(
        update={
            name: getattr(config, name).model_copy(update=values)
            for name, values in sections.items()
        }
    )


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Path:
    """A folder with an environment and an unbroken run of four steps."""
    out = tmp_path_factory.mktemp("runs")
    (out / "envs.py").write_text(ENVIRONMENT)
    train(config(out, "straight"))
    return out


@pytest.fixture(scope="module")
def half(straight) -> Path:
    """A run that was stopped after two steps."""

    def stop(event):
        if isinstance(event, Stepped) and event.row["step"] == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    assert train(config(straight, "half"), listeners=[stop]).status == "stopped"
    return straight / "half"


@pytest.fixture
def broken(half) -> Path:
    """Another copy of the run that was stopped, beside the unbroken one."""
    folder = half.with_name("broken")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(half, folder)
    return folder


def resumed(run: Path, **sections: dict[str, Any]) -> list[str]:
    """Go on with a run; what it warned of."""
    events: list[Any] = []
    settings = with_(config(run.parent, run.name), **sections)
    train(settings, resume=run.name, listeners=[events.append])
    return [event.text for event in events if isinstance(event, Warned)]


def test_a_termination_saves_after_the_step_and_the_rest_is_the_unbroken_run(straight, broken):
    assert RunFolder(broken).read_run()["status"] == "stopped"
    assert checkpoint.newest(broken / "checkpoints").step == 2
    assert len(list(disk.rows(broken / "metrics.jsonl"))) == 2
    assert resumed(broken) == []
    whole, left = remains(straight / "straight"), remains(broken)
    assert differences("broken", whole, left) == []
    assert len([name for name in whole if name.startswith("groups/")]) == 4
    logs = [path.name for path in sorted((broken / "logs").iterdir())]
    assert logs == ["attempt-001.log", "attempt-002.log"]
    assert "step 2/4" in (broken / "logs" / "attempt-001.log").read_text()
    assert "step 3/4" in (broken / "logs" / "attempt-002.log").read_text()


DAMAGE = {
    "cut": lambda c: _cut(c / "policy" / "model.safetensors"),
    "flipped": lambda c: _flip(c / "policy" / "model.safetensors"),
    "manifest": lambda c: _flip(c / "manifest.json"),
    "optimizer": lambda c: next((c / "learner").iterdir()).unlink(),
    "latest": lambda c: (c.with_name("latest").write_text("000007"), shutil.rmtree(c)),
}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b'"') + 1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    ["optimizer", *(pytest.param(d, marks=pytest.mark.slow) for d in DAMAGE if d != "optimizer")],
)
def test_from_an_older_checkpoint_a_run_comes_to_the_same_end(straight, broken, damage):
    DAMAGE[damage](broken / "checkpoints" / "000002")
    (warning,) = resumed(broken)
    assert warning.endswith("000001 is whole and is used.")
    left = remains(broken)
    kept = left["checkpoints"]
    assert kept == sorted({*kept, "latest", *(["000002.damaged"] if damage != "latest" else [])})
    left["checkpoints"] = [name for name in kept if "damaged" not in name]
    assert differences("broken", remains(straight / "straight"), left) == []
    assert warning in (broken / "logs" / "attempt-002.log").read_text()


def state(root: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in root.rglob("*")
        if p.is_file() and p.name != disk.LOCK and "logs" not in p.parts
    }


def test_where_no_checkpoint_is_whole_nothing_is_touched(broken):
    for path in (broken / "checkpoints").glob("[0-9]*"):
        _cut(path / "policy" / "model.safetensors")
    before = state(broken)
    with pytest.raises(UsageError, match=r"no whole checkpoint\. 000002: policy/model"):
        resumed(broken)
    assert state(broken) == before


@pytest.mark.slow
def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(straight, broken):
    shutil.rmtree(broken / "checkpoints")
    (warning,) = resumed(broken)
    assert warning.endswith("no checkpoint was saved yet. The run begins anew.")
    assert differences("broken", remains(straight / "straight"), remains(broken)) == []


def rewritten(folder: Path, **about: Any) -> dict[str, Any]:
    """Say of a checkpoint that other things made it; what makes it now."""
    manifest = Manifest.read(folder)
    Manifest(manifest.step, manifest.files, None, {**manifest.about, **about}).write(folder)
    return dict(manifest.about)


def test_prompts_that_would_be_others_are_refused(broken):
    root = broken / "checkpoints"
    now = rewritten(root / "000002", template="0" * 64)
    before = state(broken)
    with pytest.raises(UsageError, match="another chat template"):
        newest(root, "stopped", now)
    assert state(broken) == before


def test_other_versions_are_told(broken):
    root = broken / "checkpoints"
    now = rewritten(root / "000002", versions={**versions(), "torch": "1.0"})
    assert now["versions"] == versions()
    assert now["settings"]["select"]["n"] == 4
    found, (warning,) = newest(root, "stopped", now)
    assert found.step == 2
    assert "saved with other versions (torch 1.0 → " in warning


def test_a_run_that_was_done_and_has_no_checkpoint_does_not_begin_anew(tmp_path):
    with pytest.raises(UsageError, match=r"no whole checkpoint\. It has none"):
        newest(tmp_path, "done", {"template": "", "versions": {}})
    found, (warning,) = newest(tmp_path, "killed", {"template": "", "versions": {}})
    assert found is None
    assert "begins anew" in warning


def test_a_difference_names_what_is_gone_and_what_is_other():
    now = {"versions": {"torch": "2", "numpy": "2"}}
    assert difference({"versions": {"torch": "2"}}, now) == ""
    assert difference({}, now) == ""
    text = difference({"versions": {"torch": "1", "vllm": "3"}}, now)
    assert "torch 1 → 2, vllm 3 → none" in text


def test_a_full_disk_ends_a_run_in_one_line_and_the_last_checkpoint_stays(straight, broken):
    events: list[Any] = []
    policy = broken / "checkpoints" / "000002" / "policy" / "model.safetensors"
    with (
        files_of_at_most(policy.stat().st_size // 2),
        pytest.raises(RunError, match=r"000003: it could not be saved; 000002 of .* stays"),
    ):
        train(config(straight, "broken"), resume="broken", listeners=[events.append])
    assert RunFolder(broken).read_run()["status"] == "failed"
    assert checkpoint.newest(broken / "checkpoints").step == 2
    assert resumed(broken) == []
    assert differences("broken", remains(straight / "straight"), remains(broken)) == []


def leaves(section: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Every setting with its type."""
    found: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= leaves(kind, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = kind
    return found


SETTINGS = leaves(TrainConfig)


def other(value: Any, kind: Any) -> Any:
    """Another value of a setting."""
    if isinstance(value, dict):
        return {**value, "difficulty": "hard"}
    if isinstance(value, tuple):
        return (*value, "x")
    if value == "auto" and int in get_args(kind):
        return 7
    choices = [choice for choice in get_args(kind) if isinstance(choice, str)]
    if choices and value in choices:
        return next((choice for choice in choices if choice != value), 7)
    return not value if isinstance(value, bool) else value + ("x" if isinstance(value, str) else 1)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_free_or_refused_by_name(tmp_path, name):
    folder = record.create(str(tmp_path), "run", "x")
    old = TrainConfig()
    folder.write_config(dump_toml(old), {})
    section, key = name.split(".")
    value = getattr(getattr(old, section), key)
    new = with_(old, **{section: {key: other(value, SETTINGS[name])}})
    assert new != old
    same_settings(folder, old, FREE)
    if name in FREE or section == "run":
        same_settings(folder, new, FREE)
        return
    with pytest.raises(UsageError, match=rf"settings differ \({name}[ .].* → "):
        same_settings(folder, new, FREE)


def test_what_is_free_is_a_setting_and_changes_no_number_of_a_step(broken, straight):
    assert set(FREE) <= SETTINGS.keys()
    texts = resumed(
        broken,
        train={
            "steps": 4,
            "eval_every": 3,
            "save_every": 2,
            "keep_checkpoints": 1,
            "keep_best": 0,
            "flat_warning": 9,
        },
        record={"tokens": True},
        update={"tokens_per_micro_batch": 5000, "memory": "2GiB"},
    )
    assert texts == []
    rows = [list(disk.rows(run / "metrics.jsonl")) for run in (straight / "straight", broken)]
    for one, two in zip(*rows, strict=True):
        for name in ("reward", "tokens/sampled", "update/grad_norm", "version"):
            assert one[name] == two[name]
    kept = sorted(path.name for path in (broken / "checkpoints").iterdir())
    assert kept == ["000004", "latest"]


def drawn(run: Path) -> list[tuple[Any, ...]]:
    """Which tasks were played with which seeds, in order."""
    return [
        (path.name, row["task_id"], row["member"], row["seed"])
        for path in sorted(run.glob("groups/*"))
        for row in disk.rows(path)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_another_number_of_processes_goes_on_with_the_same_tasks(tmp_path, before, after):
    words = [
        *("--env", "tool_math", "--select.n", "8", "--select.m", "4", "--tasks-per-step", "2"),
        *("--heldout.tasks", "4", "--progress", "off"),
    ]
    started(tmp_path, *words, "--train.steps", "4", "--name", "straight")

    def mode(ranks: int) -> tuple[str, str]:
        return ("--update.parallel", "replicated" if ranks else "single")

    started(tmp_path, *words, *mode(before), "--steps", "2", "--name", "other", ranks=before)
    started(tmp_path, "--resume", "other", *mode(after), "--steps", "4", ranks=after)
    assert drawn(tmp_path / "other") == drawn(tmp_path / "straight")
    facts = json.loads((tmp_path / "other" / "run.json").read_text())
    assert facts["status"] == "done"
