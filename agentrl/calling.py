"""Calls of one turn → outcomes, whatever the tools do.

In    an environment, its tools, the calls as the policy wrote them
Out   one ToolOutcome for each call, in the order they were written
Not   a sandbox, nor an order of execution: the calls of one turn run at the same time
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from agentrl.errors import EnvironmentFault, ToolError, blame, suggestion
from agentrl.message import OutcomeStatus, ToolCall, ToolOutcome
from agentrl.tooling import BadArguments, ToolResult, ToolSpec

MAX_COMPLAINT = 500
"""Characters of a message about a call that failed."""


async def run_calls(
    tools: Mapping[str, ToolSpec], calls: Sequence[ToolCall], *, max_chars: int
) -> tuple[tuple[ToolOutcome, ...], bool]:
    """Run calls side by side; also whether one of them ended the episode.

    A tool that fails says so to the policy and disturbs no other; only an EnvironmentFault
    (the first in call order) comes out as an exception, when all have finished.
    """
    results = await asyncio.gather(
        *(_run(tools, call, max_chars) for call in calls), return_exceptions=True
    )
    done: list[tuple[ToolOutcome, bool]] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return tuple(outcome for outcome, _ in done), any(terminate for _, terminate in done)


async def run_author(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run an author's function: awaited if it is async, else in a thread of its own.

    Not in a pool: a pool's threads are few, and one that hangs would be missing for good.
    """
    if inspect.iscoroutinefunction(fn):
        return await _own(fn(*args, **kwargs))
    value = await _in_thread(lambda: fn(*args, **kwargs))
    return await _own(value) if inspect.isawaitable(value) else value


async def _own(work: Awaitable[Any]) -> Any:
    """What an author awaits; a cancellation that nobody here asked for is an error of theirs."""
    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("something that it waited for was cancelled") from error


def clip(text: str, max_chars: int) -> str:
    """At most so many characters; the middle goes, with a notice. Always encodable."""
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= max_chars:
        return text
    notice = f"\n[... {len(text) - max_chars} or more characters left out ...]\n"
    room = max(0, max_chars - len(notice))
    head = (room + 1) // 2
    return (text[:head] + notice + text[len(text) - room // 2 :])[:max_chars]


async def _run(
    tools: Mapping[str, ToolSpec], call: ToolCall, max_chars: int
) -> tuple[ToolOutcome, bool]:
    name = call.name or "tool_call"
    if call.problem is not None:
        return _complain(name, "malformed", f"malformed call: {call.problem}"), False
    spec = tools.get(call.name)
    if spec is None:
        return _complain(name, "unknown_tool", _unknown(call.name, tools)), False
    begun = time.perf_counter()
    try:
        with blame(_Failed, f"{spec.name} failed"):
            result = await _result(spec, call)
    except BadArguments as error:
        return _complain(name, "bad_arguments", str(error)), False
    except _TooSlow as error:
        seconds = time.perf_counter() - begun
        return _complain(name, "timeout", str(error), seconds), False
    except ToolError as error:
        seconds = time.perf_counter() - begun
        limit = MAX_COMPLAINT if isinstance(error, _Failed) else max_chars
        return _complain(name, "error", str(error), seconds, limit), False
    seconds = time.perf_counter() - begun
    content = clip(result.content, max_chars)
    status: OutcomeStatus = "error" if result.is_error else "ok"
    outcome = ToolOutcome(name, content, status, float(result.reward), seconds, result.metrics)
    return outcome, result.terminate


async def _result(spec: ToolSpec, call: ToolCall) -> ToolResult:
    arguments = spec.check(call.arguments)
    clock = asyncio.timeout(spec.timeout)
    try:
        async with clock:
            value = await run_author(spec.fn, **arguments)
    except TimeoutError:
        if not clock.expired():
            raise
        raise _TooSlow(f"{spec.name} took longer than {spec.timeout:g} seconds.") from None
    return _as_result(spec, value)


def _as_result(spec: ToolSpec, value: Any) -> ToolResult:
    result = value if isinstance(value, ToolResult) else ToolResult(_as_text(value))
    metrics = {str(name): float(number) for name, number in result.metrics.items()}
    for name, number in {"reward": result.reward, **metrics}.items():
        if not math.isfinite(number):
            raise EnvironmentFault(
                f"tool {spec.name}: its {name} is {number}. Rewards and metrics are finite numbers."
            )
    return replace(
        result,
        content=_as_text(result.content),
        terminate=bool(result.terminate),
        metrics=metrics,
        is_error=bool(result.is_error),
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _complain(
    name: str, status: OutcomeStatus, text: str, seconds: float = 0.0, limit: int = MAX_COMPLAINT
) -> ToolOutcome:
    return ToolOutcome(clip(name, 80), clip(text, limit), status, 0.0, seconds)


def _unknown(name: str, specs: Mapping[str, ToolSpec]) -> str:
    if not specs:
        return f"unknown tool {name[:80]}. There are no tools here."
    parts = [f"unknown tool {name[:80]}.", suggestion(name[:80], specs)]
    return " ".join([p for p in parts if p] + [f"Available: {', '.join(specs)}."])


class _TooSlow(ToolError):
    """The tool's time limit ran out."""


class _Failed(ToolError):
    """The tool raised something that was not meant for the policy."""


async def _in_thread(work: Callable[[], Any]) -> Any:
    """The result of `work`, run in a daemon thread that sees this task's context."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, Exception | None]] = loop.create_future()
    context = copy_context()

    def settle(value: Any, error: Exception | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def main() -> None:
        value, error = _caught(lambda: context.run(work))
        # The loop may be closed when a thread that ran out of time comes back: nobody waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, value, error)

    with blame(EnvironmentFault, "no thread to run in"):
        threading.Thread(target=main, name="agentrl-author", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return value


def _caught(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """A thread has no caller, so everything is carried over to the one who waits."""
    try:
        return work(), None
    except Exception as error:
        return None, error
    except BaseException as error:
        return None, RuntimeError(f"it tried to end the program with {type(error).__name__}")
