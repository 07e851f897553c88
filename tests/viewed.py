"""Small runs that were really played, by a script, and written as a run writes them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentrl.chosen import choose
from agentrl.config import TrainConfig
from agentrl.engines.scripted import ScriptedEngine
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, ToolError
from agentrl.group import Group, play_groups, seed_for
from agentrl.record import RunFolder
from agentrl.task import Task
from agentrl.tomlfile import dump_toml
from agentrl.tooling import tool
from tests.doubles import ReadableTokenizer
from tests.steered import call, world_of

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
    "\x1b[31mred\x1b[0m \u202eevil\u202c {{ 7*7 }} ${7*7} <!-- &lt; \x00 \U0001f600 ]]>"
)
"""What a tool may say."""
CAP = 4096
Script = Callable[[tuple[int, int], int], str]


class Cellar(ToolEnv):
    """A cellar to look around in. It says hostile things, and what is named there is worth it."""

    max_turns = 3
    system_prompt = "Find the lamp."

    @tool
    def look(self, where: str) -> str:
        """Look somewhere."""
        if where == "behind":
            raise ToolError("there is a wall.")
        if where == "below":
            raise EnvironmentFault("the floor gave way")
        return HOSTILE if where == "up" else f"a lamp, {where}"

    def reward(self, task: Task, trajectory: object) -> dict[str, float]:
        """The number that the answer ends with, and a little for manners."""
        said = trajectory.answer.split() or ["0"]  # type: ignore[attr-defined]
        return {"found": float(said[-1]), "manners": 0.1 * ("please" in said)}


def plainly(session: tuple[int, int], turn: int) -> str:
    """It looks up, then behind, and answers with what its seat is worth."""
    if turn < 2:
        return call("look", where=("up", "behind")[turn])
    return f"It is worth {(session[0] + session[1]) % 4 / 4}"


def tasks_of(count: int) -> list[Task]:
    """Tasks of several kinds."""
    meta = {"difficulty": "easy", "tags": ["dark"]}
    return [Task(f"{n}. Where is the lamp?", str(n), meta=meta) for n in range(count)]


def played(
    tasks: Sequence[Task], n: int, script: Script = plainly, step: int = 1, **options: object
) -> list[Group]:
    """Groups of a scripted policy."""
    engine = ScriptedEngine(ReadableTokenizer(), script)
    engine.version = step - 1
    work = play_groups(
        lambda task: Cellar(),
        tasks,
        n=n,
        seed_of=lambda task, member: 100 * int(task.prompt.partition(".")[0]) + member,
        world=world_of(engine, **options),
    )
    return asyncio.run(work)


def config_of(**select: object) -> TrainConfig:
    """Settings of such a run."""
    settings = {"n": 8, "m": 4} | select
    return TrainConfig.model_validate({"select": settings, "env": {"name": "tool_math"}})


def write_run(
    path: Path,
    *,
    steps: int = 2,
    tasks: int = 3,
    n: int = 8,
    script: Script = plainly,
    tokens: bool = True,
    **select: object,
) -> Path:
    """A finished run: groups of each step, held-out tasks before and after."""
    config = config_of(n=n, **select)
    run = RunFolder(path)
    path.mkdir(parents=True)
    run.write_run({"status": "done", "env": "cellar", "model": "scripted", "n": n, "m": 4})
    run.write_config(dump_toml(config), {})
    for step in range(1, steps + 1):
        write_step(run, config, step, played(tasks_of(tasks), n, script, step), tokens=tokens)
    for step in (0, steps):
        held = played(tasks_of(2), 1, lambda s, t, k=step: f"It is worth {k / 4}")
        rows = [t for group in held for t in group.trajectories]
        run.write_episodes("heldout", step, rows)
    return path


def write_step(
    run: RunFolder, config: TrainConfig, step: int, groups: Sequence[Group], *, tokens: bool = False
) -> None:
    """A step as the loop writes it."""
    s = config.select
    chosen = choose(
        groups,
        s.question(CAP),
        stats=s.stats,
        loss="grpo",
        seed=seed_for(config.train.seed, step, "0", 0),
        truncated=s.truncated,
        attention_length=s.attention_length,
    )
    run.write_metrics({"step": step, "plan/cap": CAP, "reward": 0.5})
    run.write_episodes("groups", step, chosen.trajectories, chosen.marks, tokens=tokens)


def data_of(path: Path) -> dict[str, Any]:
    """The blocks of data in a page, by name."""
    found = re.findall(
        r'<script type="application/json" id="([^"]*)">(.*?)</script>', path.read_text(), re.DOTALL
    )
    return {name: json.loads(text) for name, text in found}
