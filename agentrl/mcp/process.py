"""A server as a child process, which talks in lines on its standard streams.

In    a command
Out   the streams that the SDK's client reads and writes; the last words on standard error
Not   a sandbox: the server is trusted, but for how much it says and whether it ends

The SDK has such a transport too. It has no limit for a line, and the time that it needs for one
grows with the square of its length: ten megabytes would stop all other sessions for seconds.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

MAX_LINE = 8 << 20
"""Bytes of one message; a server that sends a longer one has ended its session."""
GRACE = 2.0
"""Seconds that a server has to end by itself, and once more after it was asked to."""
_TAIL = 1000
_POLL = 0.01

Incoming = SessionMessage | Exception


@dataclass(frozen=True, slots=True)
class Command:
    """What starts a server."""

    program: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    """Added to the few variables that a server is given."""
    cwd: str | None = None


@dataclass(slots=True)
class LastWords:
    """The end of what a server wrote to standard error, and why its session ended."""

    text: str = ""
    why: str = ""

    def told(self) -> str:
        """In one line."""
        return " ".join([self.why, *self.text.split()][-60:]).strip()


@asynccontextmanager
async def child(
    command: Command, words: LastWords
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]
]:
    """Start a server; when the block ends, it and what it started have ended too.

    What left its session, as a daemon does, is not found and may live on.

    Raises:
        OSError: The program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        command.program,
        *command.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=get_default_environment() | dict(command.env),
        cwd=command.cwd,
        start_new_session=True,
        limit=MAX_LINE,
    )
    heard, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, heard, words)
        group.start_soon(_write, process, said, heard)
        group.start_soon(_overhear, process, words)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process)
                for stream in (heard, incoming, outgoing, said):
                    stream.close()
            group.cancel_scope.cancel()


async def _read(
    process: asyncio.subprocess.Process, heard: MemoryObjectSendStream[Incoming], words: LastWords
) -> None:
    assert process.stdout is not None
    with heard, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            try:
                line = await process.stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                words.why = f"it sent a message of more than {MAX_LINE} bytes."
                return
            await heard.send(_message(line))


def _message(line: bytes) -> Incoming:
    """A message, or what is wrong with it: some servers print other things between messages."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(
    process: asyncio.subprocess.Process,
    said: MemoryObjectReceiveStream[SessionMessage],
    heard: MemoryObjectSendStream[Incoming],
) -> None:
    assert process.stdin is not None
    try:
        async for message in said:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()
    except OSError:
        heard.close()  # it hears nothing any more: whoever waits for an answer is told at once


async def _overhear(process: asyncio.subprocess.Process, words: LastWords) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(65536):
        words.text = (words.text + data[-_TAIL:].decode("utf-8", "replace"))[-_TAIL:]


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Close its input, ask it to end, end it; its descendants go with it."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _ended(process):
        _signal(process, signal.SIGTERM)
        await _ended(process)
    # Also where it has ended by itself: what it started may be left.
    _signal(process, signal.SIGKILL)
    await _ended(process)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()  # a descendant that left the group could hold the pipes open


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # The group keeps its number as long as one of its members lives.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _ended(process: asyncio.subprocess.Process) -> bool:
    """Whether it ended in time; `wait` would also wait for whoever holds its pipes."""
    deadline = asyncio.get_running_loop().time() + GRACE
    while process.returncode is None:
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(_POLL)
    return True
