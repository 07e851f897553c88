"""How an episode opens: the task that a `reset` asks for, and the messages before the first turn.

In    options of `reset`; a system prompt, a task, and what `start` adds
Out   the task, or the split to draw one from; messages
Not   the drawing: that takes the environment's own generator
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrl.errors import UsageError, suggestion
from agentrl.message import Message, copied
from agentrl.task import Task

OPTIONS = ("task", "split")
"""Of `reset`."""


def asked_for(options: Mapping[str, Any]) -> tuple[Task | None, str]:
    """The task to play, None where one is to be drawn, and the split it is from.

    Raises:
        UsageError: There is no such option, or the task is none.
    """
    for key in options:
        if key not in OPTIONS:
            hint = suggestion(key, OPTIONS, "There are task and split.")
            raise UsageError(f"reset: {key!r} is not an option. {hint}")
    task = options.get("task")
    if task is None:
        return None, str(options.get("split", "train"))
    if not isinstance(task, Task):
        raise UsageError(f"reset: option task is a {type(task).__name__}. Give a Task.")
    return task, str(options.get("split", task.split))


def opening_of(system_prompt: str, task: Task, extra: str | None = None) -> list[Message]:
    """The task's messages, with neighbours of one role joined: templates insist on turns."""
    messages = copied(task.opening())
    if system_prompt:
        first = messages[0] if messages and messages[0]["role"] == "system" else None
        if first is not None:
            first["content"] = f"{system_prompt}\n\n{first['content']}"
        else:
            messages.insert(0, Message(role="system", content=system_prompt))
    if extra:
        if messages and messages[-1]["role"] == "user":
            messages[-1]["content"] += f"\n\n{extra}"
        else:
            messages.append(Message(role="user", content=extra))
    return messages
