"""An environment as a process finds it that was told nothing but its text.

In    one JSON document on standard input: text, options, positions of tasks, what to say in the
      first, where to answer
Out   one JSON document in the file that it names: hashes of the tasks and what was answered, or
      a problem
Not   on standard output: environments may print
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentrl.env import ToolEnv
from agentrl.errors import AgentRLError, EnvironmentFault, blame
from agentrl.registry import make
from agentrl.task import Task
from agentrl.vector import make_vec


def answer() -> None:
    """What the process does."""
    order = json.load(sys.stdin)
    problem, tasks, said = "", dict[str, list[str]](), list[list[str]]()
    try:
        with blame(EnvironmentFault, "it"):
            env = make(order["text"], **order["options"])
            for split, positions in order["positions"].items():
                source = env.task_source(split)
                tasks[split] = [source[i].hash for i in positions]
            first = env.task_source("train")[order["positions"]["train"][0]]
            for words in order["scripts"]:
                fresh = make(order["text"], **order["options"])
                said.append(said_of(fresh, first, words, order["seed"]))
            step_all(make_vec(order["text"], 1, vectorization_mode="async", **order["options"]))
    except AgentRLError as error:
        problem = str(error)
    Path(order["file"]).write_text(json.dumps({"problem": problem, "tasks": tasks, "said": said}))


def said_of(env: ToolEnv, task: Task, words: Sequence[str], seed: int) -> list[str]:
    """What an episode answers: its opening with the tools, then a row for each turn."""
    try:
        opening, _ = env.reset(seed=seed, options={"task": task})
        rows = [repr((opening, env.tool_schemas()))]
        for text in words:
            if env.end is not None:
                break
            news, reward, *ends, _ = env.step(text)
            rows.append(repr((news, reward, ends)))
        return rows
    finally:
        env.close()


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
