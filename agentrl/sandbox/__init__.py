"""Sandbox: run what a policy wrote, in a process that can do nothing else.

In    code as text, of any origin, also hostile
Out   Result: how it ended, what it printed, how it was held
Not   safe from faults of the kernel itself; and never a judge: what the code says is text
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentrl.sandbox.box import Sandbox
    from agentrl.sandbox.result import Limits, Result
    from agentrl.sandbox.session import Session

__all__ = ["Limits", "Result", "Sandbox", "Session"]

_HOMES = {"Limits": "result", "Result": "result", "Sandbox": "box", "Session": "session"}


def __getattr__(name: str) -> Any:
    """Load the module a public name lives in; a fork server needs few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
