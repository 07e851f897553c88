"""A run's checkpoint → a plain Hugging Face folder that says where it came from.

In    a run's folder, a step, which form
Out   a new folder: weights, tokenizer, template, generation config, README.md
Not   another precision or format: the files are those that the run saved, to the byte
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl import checkpoint, disk
from agentrl.checkpoint import Found
from agentrl.errors import RunError, UsageError, blame
from agentrl.record import RunFolder

ADAPTER = "adapter"
_WEIGHTS = (".safetensors", ".safetensors.index.json")
_MODEL = ("config.json", "generation_config.json")
_ADAPTER_CONFIG = "adapter_config.json"


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, from where."""

    path: str
    run: str
    step: int
    form: str
    """model, or adapter."""
    base: str
    """The model that the run began with."""
    accuracy: float | None
    bytes: int


def export(
    run: RunFolder, out: Path, *, step: int | None = None, adapter: bool = False
) -> Exported:
    """Write a checkpoint's policy as a folder of its own.

    Args:
        run: With checkpoints.
        out: A folder that is not there yet; it appears whole or not at all.
        step: Of a checkpoint; None takes the newest whole one.
        adapter: Only the LoRA adapter, as peft reads it; else the whole model, merged.

    Raises:
        UsageError: there is no such checkpoint or adapter, or the folder is there.
        RunError: it could not be written.
    """
    if out.exists():
        raise UsageError(f"--out {out}: it is there. It would be overwritten. Name another.")
    found = checkpoint.newest(run.checkpoints, step)
    source = found.path / checkpoint.POLICY
    if adapter and not (source / ADAPTER).is_dir():
        raise UsageError(
            f"--adapter: {found.path} has none: its run trained the model itself. "
            "Leave --adapter out."
        )
    facts = run.read_run()
    form = ADAPTER if adapter else "model"
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    with blame(RunError, f"--out {out}: it could not be written. Give a folder that can"):
        try:
            aside.mkdir(parents=True)
            (_copy_adapter if adapter else _copy_model)(source, aside)
            told = _told(found, facts, form)
            (aside / "README.md").write_text(_readme(run, found, facts, told), encoding="utf-8")
            for path in aside.iterdir():
                disk.sync_file(path)
            size = sum(path.stat().st_size for path in aside.iterdir())
            aside.rename(out)
            disk.sync_folder(out.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return Exported(
        path=str(out),
        run=str(run.path),
        step=found.step,
        form=form,
        base=str(facts["model"]),
        accuracy=found.manifest.accuracy,
        bytes=size,
    )


def _copy_model(source: Path, to: Path) -> None:
    for path in source.iterdir():
        if path.is_file():
            shutil.copyfile(path, to / path.name)


def _copy_adapter(source: Path, to: Path) -> None:
    """The adapter, and of the model's own files the tokenizer's."""
    for path in source.iterdir():
        if path.is_file() and path.name not in _MODEL and not path.name.endswith(_WEIGHTS):
            shutil.copyfile(path, to / path.name)
    for path in (source / ADAPTER).iterdir():
        shutil.copyfile(path, to / path.name)
    config = to / _ADAPTER_CONFIG
    facts = json.loads(config.read_text(encoding="utf-8"))
    base = Path(facts["base_model_name_or_path"])
    if base.is_dir():  # a path that was relative to where the run was started
        facts["base_model_name_or_path"] = str(base.resolve())
        config.write_text(json.dumps(facts, indent=2, sort_keys=True), encoding="utf-8")


def _told(found: Found, facts: Mapping[str, Any], form: str) -> dict[str, str]:
    """What the README lists."""
    settings = found.manifest.about.get("settings", {}).get("update", {})
    heldout = facts.get("heldout") or {}
    rows: list[tuple[str, Callable[[], str]]] = [
        ("base model", lambda: f"`{facts['model']}`"),
        ("form", lambda: "a LoRA adapter" if form == ADAPTER else "the whole model"),
        ("environment", lambda: f"`{facts['env']}`"),
        ("step", lambda: str(found.step)),
        ("method", lambda: f"{settings['loss']}, {facts['m']} of {facts['n']} trajectories kept"),
        ("held-out accuracy before", lambda: _accuracy(heldout["before"])),
        ("held-out accuracy at this step", lambda: f"{found.manifest.accuracy:.3f}"),
        ("seed", lambda: str(facts["seed"])),
        ("run started", lambda: str(facts["started"])),
    ]
    told: dict[str, str] = {}
    for name, say in rows:
        with suppress(KeyError, TypeError):  # what was not measured or not recorded is not told
            told[name] = say()
    return told


def _accuracy(found: Mapping[str, Any]) -> str:
    return (
        f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}] on {found['tasks']} tasks"
    )


def _readme(run: RunFolder, found: Found, facts: Mapping[str, Any], told: Mapping[str, str]) -> str:
    versions = found.manifest.about.get("versions", {})
    files = {
        name.rpartition("/")[2]: entry["sha256"]
        for name, entry in sorted(found.manifest.files.items())
        if name.startswith(f"{checkpoint.POLICY}/") and name.endswith(".safetensors")
    }
    lines = [
        "---",
        "library_name: " + ("peft" if told["form"] == "a LoRA adapter" else "transformers"),
        "pipeline_tag: text-generation",
        "tags: [agentrl, reinforcement-learning, tool-use]",
        "---",
        "",
        f"# {run.path.name}, step {found.step}",
        "",
        f"Trained with agentrl {facts.get('version', '')} and exported from its checkpoint.",
        "",
        *(f"* {name}: {value}" for name, value in told.items()),
        "",
        "Versions: " + (", ".join(f"{k} {v}" for k, v in versions.items()) or "not recorded") + ".",
        "",
        "| file of the checkpoint | sha256 |",
        "|---|---|",
        *(f"| `{name}` | `{digest}` |" for name, digest in files.items()),
        "",
    ]
    return "\n".join(lines)
