"""Going on with a run: whether it may, and from where.

In    a run's folder, the settings and versions of now
Out   the checkpoint to load and what a person should know first; or a refusal by name
Not   loading: the parts of a run do that themselves (checkpoint.py)
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from agentrl import checkpoint
from agentrl.about import difference
from agentrl.config import TrainConfig
from agentrl.errors import UsageError
from agentrl.record import CONFIG, RunFolder
from agentrl.tomlfile import flat


def newest(
    root: Path, status: str, about: Mapping[str, Any]
) -> tuple[checkpoint.Found | None, list[str]]:
    """The checkpoint to go on from, with warnings; None: none was saved, the run begins anew.

    Args:
        root: Folder of checkpoints.
        status: Of the run, as it was left.
        about: What makes its numbers now.

    Raises:
        UsageError: no checkpoint is whole, or its prompts would be others now.
    """
    if status != "done" and not checkpoint.any_saved(root):
        return None, [f"{root}: no checkpoint was saved yet. The run begins anew."]
    found = checkpoint.newest(root)
    saved = found.manifest.about
    if saved.get("template", about["template"]) != about["template"]:
        raise UsageError(
            f"{found.path}: it was trained with another chat template than its model has now. "
            "Every prompt would differ. Resume with the files of --model as they were."
        )
    made = difference(saved, about)
    return found, [text for text in (found.warning, made and f"{found.path}: {made}") if text]


def same_settings(folder: RunFolder, config: TrainConfig, free: Collection[str]) -> None:
    """Refuse to go on under other settings than the run's own, but for free ones and [run].

    Raises:
        UsageError: with every setting that differs.
    """
    text = (folder.path / CONFIG).read_text(encoding="utf-8")
    old = flat(TrainConfig.model_validate(tomllib.loads(text)).model_dump())
    new = flat(config.model_dump())
    changed = [
        f"{key} {old.get(key)} → {new.get(key)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key not in free and not key.startswith("run.")
    ]
    if changed:
        raise UsageError(
            f"--resume {folder.path}: settings differ ({', '.join(changed)}). A resumed run "
            "goes on with its own. Leave them out, or start anew with another --name."
        )
