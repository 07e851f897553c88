"""Formats by name.

In    nothing
Out   FORMATS: every way of writing calls that is read here
Not   a guess from a model's name: which of them a model uses is proved with its own template
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrl.formats import deepseek, harmony, hermes, llama3_json, mistral, qwen3_coder
from agentrl.formats.format import Format

HERMES: Final = Format("hermes", hermes.parse)

_ALL = (
    HERMES,
    Format("qwen3_coder", qwen3_coder.parse),
    Format("llama3_json", llama3_json.parse, ends=("<|eom_id|>",)),
    Format("mistral", mistral.parse_list, "[THINK]", "[/THINK]", call_ids=mistral.list_ids),
    Format("mistral_args", mistral.parse_args, "[THINK]", "[/THINK]", call_ids=mistral.args_ids),
    Format("deepseek_v3", deepseek.parse_v3),
    Format("deepseek_v31", deepseek.parse_v31),
    Format("harmony", harmony.parse, "<|channel|>analysis", "<|channel|>analysis"),
)
FORMATS: Final[Mapping[str, Format]] = {format.name: format for format in _ALL}
