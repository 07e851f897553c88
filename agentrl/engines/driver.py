"""One thread that steps an engine core, so that many coroutines can ask it at once.

In    requests and calls, from any thread
Out   a future for each, resolved by the thread that owns the core
Not   knowledge of any engine: a core is four methods
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentrl.errors import AgentRLError, EngineError
from agentrl.policy import Request


class Core(Protocol):
    """What a driver drives; only the driver's thread touches it."""

    def add(self, key: str, request: Request) -> None:
        """Begin a request; an exception concerns this request alone."""
        ...

    def step(self) -> Iterable[tuple[str, Any]]:
        """Sample on; keys and outputs of the requests that ended."""
        ...

    def drop(self, key: str) -> None:
        """Forget a request that nobody waits for."""
        ...

    def stop(self) -> None:
        """Free everything."""
        ...


@dataclass(frozen=True, slots=True)
class _Entry:
    """Something to do: a request to begin, or a call to make while none runs, or at once."""

    request: Request | None
    call: Callable[[], Any] | None
    soon: bool = False
    fatal: bool = False
    """Where the call fails, so does every request that is running."""
    future: Future[Any] = field(default_factory=Future)


class Driver:
    """Owns a core and its thread. Entries are begun in the order they came."""

    def __init__(self, core: Core, name: str) -> None:
        self._core = core
        self._name = name
        self._inbox: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._live: dict[str, Future[Any]] = {}
        self._failure: str | None = None
        self._keys = map(str, itertools.count())
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"engine {name}", daemon=True)
        self._thread.start()

    def ask(self, request: Request) -> Future[Any]:
        """Begin a request. Cancelling the future drops it."""
        return self._put(_Entry(request, None))

    def call(self, function: Callable[[], Any], *, soon: bool = False) -> Future[Any]:
        """Run a function in the core's thread when no request is running, or `soon`: between steps.

        What comes behind it waits for it.
        """
        return self._put(_Entry(None, function, soon))

    def change(self, function: Callable[[], Any]) -> Future[Any]:
        """The same, soon; where the function fails, all that is running fails with it."""
        return self._put(_Entry(None, function, soon=True, fatal=True))

    def close(self) -> None:
        """Stop the thread and free the core; whoever still waits gets an EngineError."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._inbox.put(None)
        self._thread.join()

    def _put(self, entry: _Entry) -> Future[Any]:
        with self._closing:
            if self._closed:
                entry.future.set_exception(EngineError(f"engine {self._name}: it is closed."))
            else:
                self._inbox.put(entry)
        return entry.future

    def _run(self) -> None:
        waiting: deque[_Entry] = deque()
        while self._receive(waiting):
            while waiting and (waiting[0].request or waiting[0].soon or not self._live):
                self._begin(waiting.popleft())
            if self._live:
                self._step()
        for future in [*self._live.values(), *(entry.future for entry in waiting)]:
            _fail(future, EngineError(f"engine {self._name}: it was closed meanwhile."))
        self._core.stop()

    def _receive(self, waiting: deque[_Entry]) -> bool:
        """Take what has come, waiting only where there is nothing to do; False to stop."""
        while True:
            try:
                entry = self._inbox.get(block=not self._live and not waiting)
            except queue.Empty:
                return True
            if entry is None:
                return False
            waiting.append(entry)

    def _begin(self, entry: _Entry) -> None:
        if self._failure is not None:
            _fail(entry.future, EngineError(self._failure))
        elif entry.request is None:
            self._make(entry)
        elif not entry.future.cancelled():
            key = next(self._keys)
            try:
                self._core.add(key, entry.request)
            except Exception as error:
                _fail(entry.future, error)
            else:
                self._live[key] = entry.future

    def _make(self, entry: _Entry) -> None:
        assert entry.call is not None
        if not entry.future.set_running_or_notify_cancel():
            return
        try:
            entry.future.set_result(entry.call())
        except Exception as error:
            if entry.fatal:
                self._lose(error)
            entry.future.set_exception(error)

    def _lose(self, error: Exception) -> None:
        """What was running can't go on after a change that failed; the core can."""
        problem = error if isinstance(error, AgentRLError) else EngineError(repr(error))
        try:
            for key, future in self._live.items():
                self._core.drop(key)
                _fail(future, type(problem)(str(problem)))
            self._live.clear()
        except Exception as broken:
            self._break(broken)

    def _step(self) -> None:
        try:
            for key in [key for key, future in self._live.items() if future.cancelled()]:
                del self._live[key]
                self._core.drop(key)
            for key, output in self._core.step() if self._live else ():
                future = self._live.pop(key)
                if future.set_running_or_notify_cancel():
                    future.set_result(output)
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        """After a failed step the core's state is unknown: nothing is asked of it again."""
        self._failure = (
            f"engine {self._name}: it failed while generating: {type(error).__name__}: {error}. "
            "It can't go on; start the run again."
        )
        for future in self._live.values():
            problem = EngineError(self._failure)
            problem.__cause__ = error
            _fail(future, problem)
        self._live.clear()


def _fail(future: Future[Any], error: Exception) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
