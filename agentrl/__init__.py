"""AgentRL: train language-model agents with tools, playing many and learning from few.

In    nothing: names are loaded when they are first used
Out   the public names below
Not   a heavy import: no torch, transformers, vllm, gymnasium or pydantic until one is needed
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentrl.version import __version__

if TYPE_CHECKING:
    from agentrl.checks import check_env
    from agentrl.env import ToolEnv
    from agentrl.errors import AgentRLError, ToolError
    from agentrl.evaluation import evaluate
    from agentrl.message import AssistantTurn, Turn
    from agentrl.registry import make, register
    from agentrl.selection import Selection, select
    from agentrl.task import JsonlTasks, ListTasks, ProceduralTasks, Task
    from agentrl.toolbox import Toolbox
    from agentrl.tooling import ToolResult, tool
    from agentrl.training import train
    from agentrl.trajectory import Trajectory
    from agentrl.vector import make_vec

__all__ = [
    "AgentRLError",
    "AssistantTurn",
    "JsonlTasks",
    "ListTasks",
    "ProceduralTasks",
    "Selection",
    "Task",
    "ToolEnv",
    "ToolError",
    "ToolResult",
    "Toolbox",
    "Trajectory",
    "Turn",
    "__version__",
    "check_env",
    "evaluate",
    "make",
    "make_vec",
    "register",
    "select",
    "tool",
    "train",
]

_HOMES = {
    "AgentRLError": "errors",
    "AssistantTurn": "message",
    "JsonlTasks": "task",
    "ListTasks": "task",
    "ProceduralTasks": "task",
    "Selection": "selection",
    "Task": "task",
    "ToolEnv": "env",
    "ToolError": "errors",
    "ToolResult": "tooling",
    "Toolbox": "toolbox",
    "Trajectory": "trajectory",
    "Turn": "message",
    "check_env": "checks",
    "evaluate": "evaluation",
    "make": "registry",
    "make_vec": "vector",
    "register": "registry",
    "select": "selection",
    "tool": "tooling",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    """Load the module a public name lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
