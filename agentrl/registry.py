"""Environments and toolboxes by name.

In    `name`, `module:Class`, `path/file.py:Class` or, by adapted.py, `gymnasium/ID`; options
Out   the class, or an instance
Not   how they are found: catalog.py

Built-in environments are the modules of the package `agentrl_environments`, toolboxes those of
`agentrl_tools`; other people's come from the entry points `agentrl.environments` and
`agentrl.tools`, or from `register`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from agentrl.adapted import adapted
from agentrl.catalog import Catalog
from agentrl.env import ToolEnv
from agentrl.errors import UsageError, blame
from agentrl.toolbox import Toolbox

BUILT_INS = "agentrl_environments"
GROUP = "agentrl.environments"

TOOLBOXES = Catalog(
    base=Toolbox,
    package="agentrl_tools",
    group="agentrl.tools",
    noun="toolbox",
    flag="tool",
    option="--tool",
    listing="agentrl tools list",
)

_registered: dict[str, str] = {}


def register(name: str, target: str) -> None:
    """Give the class at `module:Class` a name, for this process."""
    if not name or any(mark in name for mark in ":*, ") or name.endswith(".py"):
        raise UsageError(f"register: {name!r} can't be a name. Use letters, digits, _ and -.")
    if ":" not in target:
        raise UsageError(f"register {name}: {target!r} is no target. Write 'module:Class'.")
    if _registered.setdefault(name, target) != target:
        raise UsageError(
            f"register {name}: the name stands for {_registered[name]} already. Take another."
        )


def resolve(text: str) -> type[ToolEnv]:
    """The class that a text names; UsageError says what was looked for."""
    return adapted(text) or _environments().resolve(text)


def make(text: str, **options: Any) -> ToolEnv:
    """An instance of what a text names, with options as keyword arguments."""
    kind = adapted(text)
    if kind is None:
        return _environments().make(text, options)
    with blame(UsageError, f"--env {text}"):
        return kind(**options)


def check_options(text: str, options: Mapping[str, Any]) -> None:
    """Refuse options that what a text names does not take."""
    _environments().check_options(text, resolve(text), options)


def address(text: str) -> str:
    """A text that leads to the same class in another process, where nothing was registered."""
    return _registered.get(text, text)


def names() -> list[str]:
    """Every name that `resolve` knows, sorted."""
    return _environments().names()


def first_lines() -> dict[str, str]:
    """The first line of each environment's docstring; empty where there is none to read."""
    return _environments().first_lines()


def summary(text: str) -> str:
    """The first line of the docstring of what a text names."""
    return (inspect.getdoc(resolve(text)) or "").partition("\n")[0]


def _environments() -> Catalog[ToolEnv]:
    return Catalog(
        base=ToolEnv,
        package=BUILT_INS,
        group=GROUP,
        noun="environment",
        flag="--env",
        option="--env",
        listing="agentrl envs list",
        registered=_registered,
    )
