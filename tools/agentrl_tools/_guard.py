"""Guard of a SQLite connection: what a statement may touch, and how much of anything it may use.

In    a connection that holds what a policy may work on
Out   the same connection, which refuses files, settings and whatever has no end
Not   a memory limit for one connection: SQLite has one for the process only
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from agentrl.errors import UsageError

PROCESS_MEGABYTES = 2048
"""Most memory of all SQLite databases of this process, set where nobody has set one: without it
one statement takes a gigabyte a second. SQLite can lower it afterwards, but not raise it."""
MAX_STATEMENT = 20_000
"""Bytes of SQL."""
MAX_VALUE = 100_000
"""Bytes of one value or row. Functions of text take a time that grows with its square, and SQLite
looks at no limit meanwhile."""
MAX_CALLS = 100
"""Places of a statement where a function is called, for the same reason."""
MAX_TRIMMED = 100
"""Characters that may be asked to be trimmed."""
MORE = 5
"""Times the limits of a policy's statement that one of the environment may take."""
_TICK = 1000
"""Steps of SQLite between two looks at the limits."""

_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MAX_STATEMENT,
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_READS = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_SAVEPOINT,
}
_WRITES = {
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_ALTER_TABLE: "ALTER TABLE",
    sqlite3.SQLITE_REINDEX: "REINDEX",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
    sqlite3.SQLITE_CREATE_TABLE: "CREATE TABLE",
    sqlite3.SQLITE_CREATE_INDEX: "CREATE INDEX",
    sqlite3.SQLITE_CREATE_VIEW: "CREATE VIEW",
    sqlite3.SQLITE_CREATE_TRIGGER: "CREATE TRIGGER",
    sqlite3.SQLITE_DROP_TABLE: "DROP TABLE",
    sqlite3.SQLITE_DROP_INDEX: "DROP INDEX",
    sqlite3.SQLITE_DROP_VIEW: "DROP VIEW",
    sqlite3.SQLITE_DROP_TRIGGER: "DROP TRIGGER",
    sqlite3.SQLITE_DROP_TEMP_TABLE: "DROP TABLE",
    sqlite3.SQLITE_DROP_TEMP_INDEX: "DROP INDEX",
    sqlite3.SQLITE_DROP_TEMP_VIEW: "DROP VIEW",
    sqlite3.SQLITE_DROP_TEMP_TRIGGER: "DROP TRIGGER",
}
_NEVER = {
    # One of the same name would stand before what the environment asks for.
    sqlite3.SQLITE_CREATE_TEMP_TABLE: "CREATE TEMP TABLE",
    sqlite3.SQLITE_CREATE_TEMP_INDEX: "CREATE TEMP INDEX",
    sqlite3.SQLITE_CREATE_TEMP_VIEW: "CREATE TEMP VIEW",
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: "CREATE TEMP TRIGGER",
    sqlite3.SQLITE_ATTACH: "ATTACH, and VACUUM which uses it,",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_CREATE_VTABLE: "CREATE VIRTUAL TABLE",
    sqlite3.SQLITE_DROP_VTABLE: "DROP of a virtual table",
}
_DESCRIBING = (
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
)
_SILENT = "data_version"
"""A PRAGMA with which full-text tables look for changes."""
_FILES = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
"""Functions that reach outside, as far as builds of SQLite have them."""
_SPEC = re.compile(r"%[^a-zA-Z%]*")
_MADE = "SELECT lower(name), sql FROM main.sqlite_master WHERE type IN ('view', 'trigger')"


def _printf_objection(form: Any = "", *_values: Any) -> str:
    for spec in _SPEC.findall(str(form)):
        if "*" in spec or re.search(r"\d{4}", spec):
            return "printf takes no * here, and no width of over 999"
    return ""


def _trim_objection(_text: Any, what: Any) -> str:
    return f"trim takes {MAX_TRIMMED} characters at most" if len(str(what)) > MAX_TRIMMED else ""


_BOUNDED: dict[tuple[str, int], Callable[..., str]] = {
    ("printf", -1): _printf_objection,
    ("format", -1): _printf_objection,
    ("trim", 2): _trim_objection,
    ("ltrim", 2): _trim_objection,
    ("rtrim", 2): _trim_objection,
}
"""Functions of which one call may take seconds, and what speaks against a call."""


@dataclass
class Guard:
    """The limits of one connection, and what the last statement was refused for."""

    connection: sqlite3.Connection
    readonly: bool
    seconds: float
    """Of a statement."""
    steps: int
    """Of SQLite's machine in a statement: a limit that is the same on every computer."""
    megabytes: float
    """Of the database."""
    refused: str = ""
    stopped: str = ""
    _times: int = 1
    _left: int = 0
    _deadline: float = 0.0
    _calls: int = 0
    _over: bool = False
    _made: dict[str, str] = field(default_factory=dict)
    """Views and triggers that were there before the policy."""
    _foreign: frozenset[str] = frozenset()
    """Views and triggers that may not take part in what the environment asks."""
    _plain: sqlite3.Connection = field(default_factory=lambda: memory())
    """Where functions are as they were."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def held(self) -> Iterator[Guard]:
        """The connection, for one caller at a time."""
        try:
            with self._lock:
                if self._over:
                    raise UsageError("sql: the episode is over. Call start first.")
                yield self
        finally:
            if self._over:
                self._close()

    def end(self) -> None:
        """Close the connection, or have it closed by the thread whose statement runs just now.

        Nobody waits: a few functions of SQLite cannot be interrupted.
        """
        self._over = True
        self.connection.interrupt()
        self._close()

    def _close(self) -> None:
        if self._lock.acquire(blocking=False):
            with suppress(sqlite3.Error):
                self.connection.close()
                self._plain.close()
            self._lock.release()

    def close_in(self) -> None:
        """Set the limits; there is no way back but `asking`."""
        run = self.connection.execute
        self._made = dict(run(_MADE).fetchall())
        for (name, arguments), objection in _BOUNDED.items():
            bounded = self._bounded(name, objection)
            self.connection.create_function(name, arguments, bounded, deterministic=True)
        for limit, value in _LIMITS.items():
            self.connection.setlimit(limit, value)
        if run("PRAGMA hard_heap_limit").fetchone()[0] == 0:
            run(f"PRAGMA hard_heap_limit={PROCESS_MEGABYTES << 20}")
        (page,) = run("PRAGMA page_size").fetchone()
        run("PRAGMA temp_store=MEMORY")  # otherwise a sort that is large enough writes a file
        run(f"PRAGMA max_page_count={max(1, int(self.megabytes * 2**20) // page)}")
        run(f"PRAGMA query_only={int(self.readonly)}")
        self.stand_guard()

    def stand_guard(self) -> None:
        """Look at everything that a statement does."""
        self.connection.set_authorizer(self._allow)
        self.connection.set_progress_handler(self._stop, _TICK)

    @contextmanager
    def asking(self, *, made: bool) -> Iterator[None]:
        """Let a statement of the environment do what it likes, for a longer while.

        Args:
            made: Whether views and triggers that the policy made or changed may take part.
        """
        self.connection.set_authorizer(None)
        self.begin(MORE)
        try:
            now = dict(self.connection.execute(_MADE).fetchall())
            strange = (name for name, sql in now.items() if self._made.get(name) != sql)
            self._foreign = frozenset() if made else frozenset(strange)
            self.connection.set_authorizer(self._allow_asking)
            yield
        finally:
            self.stand_guard()

    def begin(self, times: int = 1) -> None:
        """A statement begins."""
        self.refused = self.stopped = ""
        self._calls, self._times = 0, times
        self._left = times * self.steps // _TICK
        self._deadline = time.monotonic() + times * self.seconds

    def _stop(self) -> bool:
        self._left -= 1
        if self._left < 0:
            self.stopped = f"more than {self._times * self.steps} steps"
        elif time.monotonic() > self._deadline:
            self.stopped = f"more than {self._times * self.seconds:g} seconds"
        return bool(self.stopped) or self._over

    def _bounded(self, name: str, objection: Callable[..., str]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if why := objection(*given):
                self.refused = why
                raise ValueError(why)
            marks = ", ".join("?" * len(given))
            return self._plain.execute(f"SELECT {name}({marks})", given).fetchone()[0]

        return call

    def _allow_asking(
        self, _action: int, _first: str | None, _second: str | None, _db: str | None, by: str | None
    ) -> int:
        if by is None or by.lower() not in self._foreign:
            return sqlite3.SQLITE_OK
        self.refused = self.refused or f"{by} was made by the policy"
        return sqlite3.SQLITE_DENY

    def _allow(
        self, action: int, first: str | None, second: str | None, _db: str | None, _by: str | None
    ) -> int:
        if not (why := self._objection(action, first or "", second or "")):
            return sqlite3.SQLITE_OK
        self.refused = self.refused or why
        return sqlite3.SQLITE_DENY

    def _objection(self, action: int, first: str, second: str) -> str:
        if action in _READS:
            return ""
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            return ""  # of tables that are functions; any other change of it SQLite refuses itself
        if self.readonly and action in _NEVER and "TEMP" in _NEVER[action]:
            return f"{_NEVER[action]}: this database can only be read"
        if action in _WRITES:
            return f"{_WRITES[action]}: this database can only be read" if self.readonly else ""
        if action == sqlite3.SQLITE_FUNCTION:
            return self._objection_to_call(second)
        if action == sqlite3.SQLITE_PRAGMA:
            known = first.lower() in (*_DESCRIBING, _SILENT)
            allowed = ", ".join(_DESCRIBING)
            return "" if known else f"PRAGMA {first[:80]} is not allowed, only {allowed}"
        return f"{_NEVER.get(action, f'action {action} of SQLite')} is not allowed"

    def _objection_to_call(self, name: str) -> str:
        self._calls += 1
        if self._calls > MAX_CALLS:
            return f"more than {MAX_CALLS} calls of functions in one statement are not allowed"
        return f"the function {name} is not allowed" if name.lower() in _FILES else ""


def memory() -> sqlite3.Connection:
    """A database in memory, whose text is always text."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection
