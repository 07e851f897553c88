"""MCP in both directions: a server's tools for environments, and an environment's for others.

In    the extra `mcp`
Out   `McpTools`, a toolbox; `serve`, which is what `agentrl mcp` runs
Not   loaded before one of them is asked for
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentrl.optional import need

if TYPE_CHECKING:
    from agentrl.mcp.serve import serve
    from agentrl.mcp.tools import McpTools

__all__ = ["McpTools", "serve"]

_HOMES = {"McpTools": "tools", "serve": "serve"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need("mcp", "mcp", f"{__name__}.{name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
