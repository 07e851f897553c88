"""Calls of one turn → outcomes, whatever the tools do.

In    tools, the calls as the policy wrote them
Out   one ToolOutcome for each call, in the order they were written
Not   a sandbox, nor an order of execution beyond what tools and environments ask for
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from agentrl.author import TooSlow, in_thread, is_at_once, is_marked, run_author
from agentrl.errors import BadArguments, EnvironmentFault, ToolError, blame, suggestion
from agentrl.message import OutcomeStatus, ToolCall, ToolOutcome
from agentrl.prints import bounded
from agentrl.tooling import ToolResult, ToolSpec
from agentrl.workers import Share

MAX_COMPLAINT = 500
"""Characters of a message about a call that failed."""
MAX_ARGUMENTS = 100_000
"""Characters of the arguments of a call."""
MAX_DEPTH = 100
"""Of lists and objects inside each other in arguments."""
MAX_JSON = 1_000_000
"""Characters of a returned value as JSON; a longer one loses its end before it is clipped."""
QUICK = 10_000
"""Characters of arguments up to which a check that takes no time to speak of needs no thread."""
SIDE_BY_SIDE = 64
"""Blocking calls of a turn that run at the same time; others wait, and their time with them."""
NOT_RUN = "not run: another call of the turn ended the episode."
Slot = Callable[[], AbstractAsyncContextManager[None]]
"""A block for one call to run in; a driver that bounds how many run at once may keep it waiting."""
_PLAIN = (str, int, float, bool, type(None))
"""What becomes text at once."""


async def run_calls(
    tools: Mapping[str, ToolSpec],
    calls: Sequence[ToolCall],
    *,
    max_chars: int,
    max_arguments: int = MAX_ARGUMENTS,
    parallel: bool = True,
    share: Share | None = None,
    slot: Slot = nullcontext,
) -> tuple[tuple[ToolOutcome, ...], bool]:
    """Run calls; also whether one of them ended the episode.

    Calls run side by side, of those that block `SIDE_BY_SIDE` at most. One whose tool is not
    `parallel`, or each where `parallel` is false, waits for those before it, and those after it
    wait for it. When one ends the episode, those beside it finish, and those that waited are
    not run.

    A tool that fails says so to the policy and disturbs no other; only an EnvironmentFault
    (the first in call order) comes out as an exception, when all beside it have finished.

    Args:
        tools: Tools by name, each bound to its owner.
        calls: As the policy wrote them.
        max_chars: Of the content of an outcome.
        max_arguments: Characters of the arguments of a call; one with more is not run.
        parallel: Whether calls run side by side at all.
        share: Of the threads that may be left behind; where it is used up, a call that needs a
            thread is refused in words.
        slot: What each call that is run runs in; its time begins inside.
    """
    blocking = asyncio.Semaphore(SIDE_BY_SIDE)
    room = _Room(max_chars, max_arguments, share or Share(), blocking, slot)
    outcomes: list[ToolOutcome] = []
    ended = False
    for batch in _batches(tools, calls, parallel):
        if ended:
            outcomes += [_complain(call.name or "tool_call", "error", NOT_RUN) for call in batch]
            continue
        if len(batch) == 1:
            # The same, without a task of its own.
            results: Sequence[tuple[ToolOutcome, bool] | BaseException] = [
                await _run(tools, batch[0], room)
            ]
        else:
            results = await asyncio.gather(
                *(_run(tools, call, room) for call in batch), return_exceptions=True
            )
        for result in results:
            if isinstance(result, BaseException):
                raise result
            outcomes.append(result[0])
            ended = ended or result[1]
    return tuple(outcomes), ended


def clip(text: str, max_chars: int) -> str:
    """At most so many characters; the middle goes, with a notice. Always encodable."""
    if len(text) > max_chars:
        notice = f"\n[... {len(text) - max_chars} or more characters left out ...]\n"
        room = max(0, max_chars - len(notice))
        head = (room + 1) // 2
        text = (text[:head] + notice + text[len(text) - room // 2 :])[:max_chars]
    return text.encode("utf-8", "replace").decode()


def _batches(
    tools: Mapping[str, ToolSpec], calls: Sequence[ToolCall], parallel: bool
) -> Iterator[list[ToolCall]]:
    """Calls that run side by side, in call order."""
    batch: list[ToolCall] = []
    for call in calls:
        spec = tools.get(call.name)
        if parallel and (spec is None or spec.parallel):
            batch.append(call)
            continue
        if batch:
            yield batch
        yield [call]
        batch = []
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class _Room:
    """What the calls of a turn may use."""

    max_chars: int
    max_arguments: int
    share: Share
    blocking: asyncio.Semaphore
    slot: Slot


async def _run(
    tools: Mapping[str, ToolSpec], call: ToolCall, room: _Room
) -> tuple[ToolOutcome, bool]:
    name = call.name or "tool_call"
    if call.problem is not None:
        return _complain(name, "malformed", f"malformed call: {call.problem}"), False
    spec = tools.get(call.name)
    if spec is None:
        return _complain(name, "unknown_tool", _unknown(call.name, tools)), False
    if inspect.iscoroutinefunction(spec.fn):
        async with room.slot():
            return await _timed(spec, call, room)
    async with room.blocking, room.slot():
        return await _timed(spec, call, room)


async def _timed(spec: ToolSpec, call: ToolCall, room: _Room) -> tuple[ToolOutcome, bool]:
    name = call.name
    clock = asyncio.get_running_loop().time
    begun = clock()
    try:
        with blame(_Failed, f"{spec.name} failed"):
            size = _size_checked(spec, call, room.max_arguments)
            result = await _called(spec, call, room, quick=spec.quick and size <= QUICK)
    except (TooSlow, ToolError) as error:
        return _complain(name, *_told(spec, error, room.max_chars), clock() - begun), False
    status: OutcomeStatus = "error" if result.is_error else "ok"
    outcome = ToolOutcome(
        name, result.content, status, float(result.reward), clock() - begun, result.metrics
    )
    return outcome, result.terminate


async def _called(spec: ToolSpec, call: ToolCall, room: _Room, *, quick: bool) -> ToolResult:
    if quick and is_marked(spec.fn):
        arguments = _arguments(spec, call)
        if is_at_once(spec.fn, **arguments):
            with bounded():
                return _checked(spec, spec.fn(**arguments), room.max_chars)
    work = partial(_worked, spec, call, room, quick=quick)
    result: ToolResult = await run_author(work, seconds=spec.timeout)
    return result


async def _worked(spec: ToolSpec, call: ToolCall, room: _Room, *, quick: bool) -> ToolResult:
    """The whole of a call: whatever may take long is done in a thread, within its time limit."""
    if not inspect.iscoroutinefunction(spec.fn):
        value = await _aside(spec, room, _blocking, spec, call, room.max_chars)
    elif quick:
        value = await spec.fn(**_arguments(spec, call))
    else:
        value = await spec.fn(**await _aside(spec, room, _arguments, spec, call))
    if isinstance(value, _PLAIN) or (
        isinstance(value, ToolResult) and isinstance(value.content, str)
    ):
        return _checked(spec, value, room.max_chars)
    result: ToolResult = await _aside(spec, room, _checked, spec, value, room.max_chars)
    return result


async def _aside(spec: ToolSpec, room: _Room, fn: Callable[..., Any], *args: Any) -> Any:
    if room.share.full:
        raise ToolError(
            f"{spec.name}: not run. {room.share.left} calls before it go on although their time "
            "is up."
        )
    return await in_thread(fn, *args, share=room.share)


def _blocking(spec: ToolSpec, call: ToolCall, max_chars: int) -> Any:
    value = spec.fn(**_arguments(spec, call))
    return value if inspect.isawaitable(value) else _checked(spec, value, max_chars)


def _arguments(spec: ToolSpec, call: ToolCall) -> dict[str, Any]:
    """Keyword arguments, none of which is part of the call: what it says is on record."""
    return spec.check(_copied(call.arguments))


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(inner) for inner in value]
    return value


def _checked(spec: ToolSpec, value: Any, max_chars: int) -> ToolResult:
    """The result that a returned value stands for; checking one again changes nothing."""
    result = value if isinstance(value, ToolResult) else ToolResult(_as_text(value))
    metrics = {str(name): number for name, number in result.metrics.items()}
    for name, number in {"reward": result.reward, **metrics}.items():
        if not _is_finite(number):
            raise EnvironmentFault(
                f"tool {spec.name}: its {name} is {str(number)[:80]}. "
                "Rewards and metrics are finite numbers."
            )
    return ToolResult(
        clip(_as_text(result.content), max_chars),
        reward=result.reward,
        terminate=bool(result.terminate),
        metrics={name: float(number) for name, number in metrics.items()},
        is_error=bool(result.is_error),
    )


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except (TypeError, OverflowError):
        return False


def _as_text(value: Any) -> str:
    """Text as it is; anything else as JSON, no more of it than could be read."""
    if isinstance(value, str):
        return value
    parts, size = [], 0
    encoder = json.JSONEncoder(ensure_ascii=False, default=_plain)
    for part in encoder.iterencode(value):
        parts.append(part)
        size += len(part)
        if size > MAX_JSON:
            return "".join(parts)[:MAX_JSON] + " [... the rest left out ...]"
    return "".join(parts)


def _plain(value: Any) -> Any:
    """Models, dataclasses, dates and the like as JSON has them; the rest as Python shows it."""
    # An iterator may never end, and reading it is not for us.
    return str(value) if isinstance(value, Iterator) else to_jsonable_python(value, fallback=str)


def _size_checked(spec: ToolSpec, call: ToolCall, most: int) -> int:
    """About the characters of arguments; refuses what is too big or too deep to look at."""
    size, level = 0, [call.arguments]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            size += _length(value)
            if size > most:
                raise BadArguments(
                    f"{spec.name}: the arguments are too long. Together they may have "
                    f"{most} characters."
                )
            if isinstance(value, Mapping):
                inner += [*value, *value.values()]
            elif isinstance(value, list | tuple):
                inner += value
        if not inner:
            return size
        level = inner
    raise BadArguments(f"{spec.name}: the arguments are nested over {MAX_DEPTH} levels deep.")


def _length(value: Any) -> int:
    """About the characters of a value as JSON, without those inside it."""
    if isinstance(value, str | Mapping | list | tuple):
        return 2 + len(value)
    return value.bit_length() // 3 + 1 if isinstance(value, int) else 4


def _told(
    spec: ToolSpec, error: TooSlow | ToolError, max_chars: int
) -> tuple[OutcomeStatus, str, int]:
    """Status of a call that failed, what the policy reads, and how much of it."""
    if isinstance(error, TooSlow):
        text = f"{spec.name} took longer than {spec.timeout:g} seconds."
        return "timeout", text, MAX_COMPLAINT
    if isinstance(error, BadArguments):
        return "bad_arguments", str(error), MAX_COMPLAINT
    if isinstance(error, _Failed):
        return "error", " ".join(str(error).split()), MAX_COMPLAINT
    return "error", str(error) or f"{spec.name} failed.", max_chars


def _complain(
    name: str,
    status: OutcomeStatus,
    text: str,
    limit: int = MAX_COMPLAINT,
    seconds: float = 0.0,
) -> ToolOutcome:
    return ToolOutcome(clip(name, 80), clip(text, limit), status, 0.0, seconds)


def _unknown(name: str, tools: Mapping[str, ToolSpec]) -> str:
    listed = [known for known, spec in tools.items() if spec.listed]
    if not listed:
        return f"unknown tool {name[:80]}. There are no tools here."
    parts = [f"unknown tool {name[:80]}.", suggestion(name[:80], listed)]
    return " ".join([p for p in parts if p] + [f"Available: {', '.join(listed)}."])


class _Failed(ToolError):
    """The tool raised something that was not meant for the policy."""
