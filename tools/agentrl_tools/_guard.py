"""Guard of a SQLite connection: what a statement may touch, and how much of anything it may use.

In    a connection that holds what a policy may work on
Out   the same connection, which refuses files, settings and whatever has no end
Not   a memory limit for one connection: SQLite has one for the process only
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

PROCESS_MEGABYTES = 2048
"""Most memory of all SQLite databases of this process, set where nobody has set one: without it
one statement takes a gigabyte a second. SQLite can lower it afterwards, but not raise it."""
MAX_STATEMENT = 20_000
"""Bytes of SQL."""
MAX_VALUE = 1_000_000
"""Bytes of one value or row."""
_TICK = 1000
"""Steps of SQLite between two looks at the limits."""

_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MAX_STATEMENT,
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
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
    sqlite3.SQLITE_CREATE_TEMP_TABLE: "CREATE TEMP TABLE",
    sqlite3.SQLITE_CREATE_TEMP_INDEX: "CREATE TEMP INDEX",
    sqlite3.SQLITE_CREATE_TEMP_VIEW: "CREATE TEMP VIEW",
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: "CREATE TEMP TRIGGER",
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
    _left: int = 0
    _deadline: float = 0.0

    def close_in(self) -> None:
        """Set the limits; there is no way back but `stand_aside`."""
        run = self.connection.execute
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

    def stand_aside(self) -> None:
        """Let pass whatever reads: who asks is the environment."""
        self.connection.set_authorizer(None)
        self.connection.set_progress_handler(None, 0)

    def begin(self) -> None:
        """A statement begins."""
        self.refused = self.stopped = ""
        self._left = self.steps // _TICK
        self._deadline = time.monotonic() + self.seconds

    def _stop(self) -> bool:
        self._left -= 1
        if self._left < 0:
            self.stopped = f"more than {self.steps} steps"
        elif time.monotonic() > self._deadline:
            self.stopped = f"more than {self.seconds:g} seconds"
        return bool(self.stopped)

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
        if action in _WRITES:
            return f"{_WRITES[action]}: this database can only be read" if self.readonly else ""
        if action == sqlite3.SQLITE_FUNCTION:
            return f"the function {second} is not allowed" if second.lower() in _FILES else ""
        if action == sqlite3.SQLITE_PRAGMA:
            known = first.lower() in (*_DESCRIBING, _SILENT)
            allowed = ", ".join(_DESCRIBING)
            return "" if known else f"PRAGMA {first[:80]} is not allowed, only {allowed}"
        return f"{_NEVER.get(action, f'action {action} of SQLite')} is not allowed"
