"""Running what an author wrote: sync or async, with a time limit, off the loop's time.

In    a function of an environment or a tool
Out   what it returns; anything it raises as an Exception; TooSlow where its time is up
Not   protection from code that never gives the loop back: an async function that computes for
      long blocks everyone, a sync one does not; nor from tasks that it starts by itself
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from agentrl.errors import AgentRLError
from agentrl.prints import bounded
from agentrl.workers import Settled, Share, workers

GRACE = 1.0
"""Seconds that a cancelled coroutine has for tidying up."""
_AT_ONCE = "__agentrl_at_once__"

F = TypeVar("F", bound=Callable[..., Any])


class TooSlow(AgentRLError):
    """The time limit of a call ran out."""


async def run_author(fn: Callable[..., Any], *args: Any, seconds: float | None = None) -> Any:
    """Run an author's function: awaited if it is async, else in a thread, or here if `at_once`.

    Args:
        fn: The function; what a sync one returns is awaited where it can be.
        args: Its arguments.
        seconds: Time limit. A coroutine is cancelled then, and closed where it does not heed
            that; a thread is left behind, and what it does later nobody sees.

    Raises:
        TooSlow: The time is up.
        EnvironmentFault: Too many threads were left behind, or none can be started.
    """
    with bounded():
        if is_at_once(fn, *args):
            return fn(*args)
        if inspect.iscoroutinefunction(fn):
            return await _in_task(fn(*args), seconds)
        return await _in_task(in_thread(fn, *args), seconds)


def at_once(when: Callable[..., bool]) -> Callable[[F], F]:
    """Mark a sync method that blocks nobody for some arguments: for these it needs no thread.

    Args:
        when: Takes what the method takes, without its `self`, and says whether it is done with
            that in no time to speak of. It says so in no time itself, whatever it is given.
    """

    def mark(fn: F) -> F:
        setattr(fn, _AT_ONCE, when)
        return fn

    return mark


def is_at_once(fn: Callable[..., Any], *args: Any, **named: Any) -> bool:
    """Whether a bound method is done with these arguments in no time."""
    when = getattr(_function(fn), _AT_ONCE, None)
    return when is not None and bool(when(*args, **named))


def is_marked(fn: Callable[..., Any]) -> bool:
    """Whether a bound method is `at_once` for some arguments."""
    return hasattr(_function(fn), _AT_ONCE)


def _function(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn.func if isinstance(fn, partial) else fn


def inherited(method: Callable[..., Any], *bases: type) -> bool:
    """Whether a method is still that of a base, which does nothing: no thread need be asked to."""
    own = getattr(method, "__func__", None)
    return own is not None and own in [vars(base).get(own.__name__) for base in bases]


async def in_thread(fn: Callable[..., Any], *args: Any, share: Share | None = None) -> Any:
    """What a sync function returns, run in a thread; awaited where it can be.

    Args:
        fn: The function.
        args: Its arguments.
        share: What its thread counts against where it is left behind.
    """
    value = await workers().run(lambda: fn(*args), share)
    return await value if inspect.isawaitable(value) else value


async def _in_task(work: Awaitable[Any], seconds: float | None) -> Any:
    """The result of a task of its own: it ends by the limit even if it swallows cancellation."""
    task = asyncio.create_task(_settled(work))
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not task.done():
        await _stop(task)
        raise TooSlow
    if task.cancelled():
        raise RuntimeError("something that it waited for was cancelled")
    value, error = task.result()
    if error is not None:
        raise error
    return value


async def _settled(work: Awaitable[Any]) -> Settled:
    """Everything is carried over as a value: some exceptions would end the loop on the way."""
    try:
        return await work, None
    except asyncio.CancelledError:
        raise
    except Exception as error:
        return None, error
    except KeyboardInterrupt:
        if threading.current_thread() is threading.main_thread():
            raise  # it looks as a person's Ctrl-C does
        return None, RuntimeError("it tried to end the program with KeyboardInterrupt")
    except BaseException as error:
        return None, RuntimeError(f"it tried to end the program with {type(error).__name__}")


async def _stop(task: asyncio.Task[Settled]) -> None:
    task.cancel()
    task.add_done_callback(_forget)
    try:
        await asyncio.wait({task}, timeout=GRACE)
    finally:
        if not task.done():
            # At its next await it meets GeneratorExit, which few catch by mistake; the task
            # itself then ends at the second cancellation. Else it would keep the loop from
            # closing: `asyncio.run` waits for every task.
            coroutine: Any = task.get_coro()
            with suppress(RuntimeError):
                coroutine.close()
            task.cancel()
            await asyncio.sleep(0)


def _forget(task: asyncio.Task[Settled]) -> None:
    """Whatever came of it, asyncio need not complain that nobody asked."""
    if not task.cancelled():
        task.exception()
