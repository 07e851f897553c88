"""Other people's environments by name: `reasoning_gym/chain_sum`, `gymnasium/Taxi-v3`.

In    a text as behind `--env`
Out   a ToolEnv class that plays what the text names, or None where it is no such text
Not   loaded before it is asked for: adapters import packages that few have
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Final

from agentrl.env import ToolEnv
from agentrl.errors import UsageError, blame

ADAPTERS: Final[Mapping[str, str]] = {
    "gem": "agentrl.adapters.gem",
    "gymnasium": "agentrl.adapters.gymnasium",
    "openenv": "agentrl.adapters.openenv",
    "reasoning_gym": "agentrl.adapters.reasoning_gym",
    "verifiers": "agentrl.adapters.verifiers",
}
"""What stands before the first slash, and the module whose `environment(name)` makes the class."""


def adapted(text: str) -> type[ToolEnv] | None:
    """The class for a text such as `gem/ID`; the same class for the same text.

    Raises:
        UsageError: its package is not installed, or has no such environment.
    """
    scheme, slash, name = text.partition("/")
    if not slash or scheme not in ADAPTERS or ".py:" in text:
        return None
    if not name:
        raise UsageError(f"--env {text}: nothing is named. Write {scheme}/NAME.")
    return _made(scheme, name)


@cache
def _made(scheme: str, name: str) -> type[ToolEnv]:
    with blame(UsageError, f"--env {scheme}/{name}"):
        try:
            adapter = importlib.import_module(ADAPTERS[scheme])
        except ModuleNotFoundError as error:
            extra = scheme.replace("_", "-")
            raise UsageError(
                f"--env {scheme}/{name}: it needs {error.name}, which is not installed. "
                f"Get it with: pip install 'agentrl-pods[{extra}]'."
            ) from error
        kind: type[ToolEnv] = adapter.environment(name)
    return kind
