"""An environment as a process finds it that was told nothing but its text.

In    one JSON document on standard input: text, options, positions of tasks, where to answer
Out   one JSON document in the file that it names: hashes of the tasks, or a problem
Not   on standard output: environments may print
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from agentrl.errors import AgentRLError, EnvironmentFault, blame
from agentrl.registry import make
from agentrl.vector import make_vec


def answer() -> None:
    """What the process does."""
    order = json.load(sys.stdin)
    problem, tasks = "", dict[str, list[str]]()
    try:
        with blame(EnvironmentFault, "it"):
            env = make(order["text"], **order["options"])
            for split, positions in order["positions"].items():
                source = env.task_source(split)
                tasks[split] = [source[i].hash for i in positions]
            step_all(make_vec(order["text"], 1, vectorization_mode="async", **order["options"]))
    except AgentRLError as error:
        problem = str(error)
    Path(order["file"]).write_text(json.dumps({"problem": problem, "tasks": tasks}))


def step_all(envs: Any) -> None:
    """Reset a vector environment and step each copy once.

    Raises:
        EnvironmentFault: it does not give as many openings and results as there are copies.
    """
    try:
        opening, _ = envs.reset(seed=1)
        news, rewards, *_ = envs.step(tuple("one" for _ in range(envs.num_envs)))
        if not len(opening) == len(news) == len(rewards) == envs.num_envs:
            raise EnvironmentFault(f"{envs.num_envs} copies gave {len(opening)} openings.")
    finally:
        envs.close()
