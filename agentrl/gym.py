"""Environments for gymnasium's own `make` and vector environments.

In    the names that registry.py knows
Out   gymnasium ids `agentrl/NAME-v0`
Not   needed for training: gymnasium wraps what it makes, and wrappers hide `astep`

Importing this module registers the ids, which is what gymnasium expects of it:
`gymnasium.make("agentrl.gym:agentrl/tool_math-v0")`.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from agentrl import registry
from agentrl.env import ToolEnv

NAMESPACE = "agentrl"


def register_envs() -> list[str]:
    """Register an id for every name known now; returns all ids. Harmless to repeat."""
    ids = {name: f"{NAMESPACE}/{name}-v0" for name in registry.names()}
    for name, env_id in ids.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id, entry_point=f"{__name__}:build", kwargs={"env_name": name}
            )
    return list(ids.values())


def build(env_name: str, **options: Any) -> ToolEnv:
    """What gymnasium calls to make an environment."""
    return registry.make(env_name, **options)


register_envs()
