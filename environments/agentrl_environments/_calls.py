"""Words of a scripted policy.

In    a tool and its arguments
Out   the text that calls it, as Hermes JSON
Not   a check: the tool may not exist
"""

from __future__ import annotations

import json
from typing import Any


def called(name: str, **arguments: Any) -> str:
    """The words that call a tool."""
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def answered(answer: str) -> str:
    """The words that end an episode."""
    return f"Answer: {answer}"
