"""An episode as a trace of verifiers, for its rewards to look at.

In    verifiers' module, its task, the episode's state, the trajectory
Out   a Trace with a node for each message
Not   tokens, usage, times or calls of a model: rewards that look at those find none
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentrl.message import Message
from agentrl.trajectory import Stop, Trajectory

_STOPS = {
    Stop.MAX_TURNS: "max_turns",
    Stop.MAX_TOKENS: "max_output_tokens",
    Stop.CONTEXT: "max_total_tokens",
}
"""What verifiers calls the ends that it has too."""


def trace_of(vf: Any, task: Any, state: Any, played: Trajectory) -> Any:
    """The trace that verifiers itself would have scored."""
    trace = vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=state,
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        is_completed=True,
        stop_condition=_STOPS.get(played.stop),
    )
    opening = len(played.opening)
    for position, message in enumerate(_messages(vf, played.messages)):
        sampled = position >= opening and message.role == "assistant"
        parent = position - 1 if position else None
        trace.nodes.append(vf.MessageNode(parent=parent, message=message, sampled=sampled))
    return trace


def _messages(vf: Any, said: list[Message]) -> Iterator[Any]:
    """Each call gets an id, and the results that follow it refer to these in order."""
    waiting: list[str] = []
    made = 0
    for message in said:
        if message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            waiting = [f"call_{made + i}" for i in range(len(calls))]
            made += len(calls)
            yield _assistant(vf, message, waiting)
        elif message["role"] == "tool":
            ident = waiting.pop(0) if waiting else "call_malformed"
            name = message.get("name")
            yield vf.ToolMessage(tool_call_id=ident, content=message["content"], name=name)
        else:
            kind = vf.SystemMessage if message["role"] == "system" else vf.UserMessage
            yield kind(content=message["content"])


def _assistant(vf: Any, message: Message, ids: list[str]) -> Any:
    calls = [
        vf.ToolCall(
            id=ident,
            name=call["function"]["name"],
            arguments=json.dumps(call["function"]["arguments"], ensure_ascii=False),
        )
        for ident, call in zip(ids, message.get("tool_calls", []), strict=True)
    ]
    return vf.AssistantMessage(
        content=message["content"],
        reasoning_content=message.get("reasoning_content"),
        tool_calls=calls or None,
    )
