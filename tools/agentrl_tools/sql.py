"""SQL: a database of its own for every episode.

In    a script, a database file or rows; statements, whatever a policy may write
Out   rows as text, or ToolError in words that the policy may read; what is left, for the reward
Not   a clock or a source of chance that repeats itself: random() and 'now' are SQLite's own
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentrl.errors import ToolError, UsageError
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import tool
from agentrl_tools._guard import Guard, memory

MAX_OUTPUT = 6000
"""Characters of a table that a policy is shown."""
MAX_CELL = 300
"""Characters of one value."""
MAX_SECONDS = 10.0
_COPYING = threading.Lock()
_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


class Sql(Toolbox):
    """Work on a database with SQL."""

    def __init__(
        self,
        *,
        script: str = "",
        database: str | Path = "",
        rows: Rows | None = None,
        setup: Callable[[Task], str] | None = None,
        readonly: bool = False,
        max_rows: int = 50,
        seconds: float = 5.0,
        steps: int = 20_000_000,
        megabytes: float = 64.0,
    ) -> None:
        """Say what a database holds when an episode begins.

        Args:
            script: SQL that makes it.
            database: A SQLite file; every episode has a copy in memory, the file stays as it is.
            rows: Rows by table, whose columns are the names that occur in them.
            setup: From a task to SQL that is run last.
            readonly: Whether the policy may only look.
            max_rows: Rows of a result that are shown.
            seconds: Most time of a statement.
            steps: Most steps of SQLite's machine in a statement: the limit that should be met
                first, since it is the same on every computer.
            megabytes: Most that the database may grow to.

        Raises:
            UsageError: The script, the file or a row does not work.
        """
        if setup is not None and not callable(setup):
            raise UsageError("sql: setup must be a function from a task to SQL, given in Python.")
        if not 0 < seconds <= MAX_SECONDS:
            raise UsageError(f"sql: seconds is {seconds}. Give more than 0, at most {MAX_SECONDS}.")
        if min(max_rows, steps) < 1 or not megabytes > 0:
            raise UsageError("sql: max_rows, steps and megabytes must be above 0.")
        path = Path(database).resolve() if database else None
        if path and not path.is_file():
            raise UsageError(f"sql: there is no file {path}. Check the path.")
        self._source = (script, path)
        self._rows, self._setup, self._max_rows = rows or {}, setup, max_rows
        self._limits = (readonly, seconds, steps, megabytes)
        self._guard: Guard | None = None
        self._copy().close()

    def start(self, task: Task) -> None:
        """Make the database of an episode."""
        connection = self._copy()
        if self._setup is not None:
            _run_script("the setup of a task", connection, self._setup(task))
        guard = Guard(connection, *self._limits)
        guard.close_in()
        self._guard = guard

    def release(self) -> None:
        """Forget the database; what still runs there is interrupted, and not waited for."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.end()

    def query(
        self, statement: str, parameters: Sequence[Any] = (), *, made: bool = False
    ) -> list[tuple[Any, ...]]:
        """What a statement of the environment's own gives.

        It sees what the policy would see, also what a transaction has not committed, may do
        what the policy may not, and has five times the time.

        Args:
            statement: One statement.
            parameters: What its question marks stand for.
            made: Whether views and triggers that the policy made or changed may take part.

        Raises:
            ToolError: The database that the policy has left has no answer: a table is gone, a
                view in its place, the answer has no end or is larger than a database may be.
                What that is worth is for the environment to say; `reward` should catch it.
            UsageError: The statement is none.
        """
        with self._held() as guard, guard.asking(made=made):
            try:
                return self._rows_of(guard, statement, parameters)
            except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
                if isinstance(error, sqlite3.ProgrammingError) or "syntax error" in str(error):
                    raise UsageError(f"sql: query: {error}. Check the statement.") from error
                raise ToolError(f"sql: query: {_in_words(guard, error)}") from error

    def _rows_of(
        self, guard: Guard, statement: str, parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        found, room = [], guard.megabytes * 2**20
        for row in guard.connection.execute(statement, parameters):
            found.append(row)
            room -= 64 + sum(len(v) if isinstance(v, str | bytes) else 8 for v in row)
            if room < 0:
                raise ToolError("sql: query: the answer is larger than a database may be.")
        return found

    @tool(timeout=MAX_SECONDS + 5, parallel=False)
    def sql(self, statement: str) -> str:
        """Run one SQL statement (SQLite) and see its rows.

        Args:
            statement: One statement. The table sqlite_master lists what there is.
        """
        if not statement.strip():
            raise ToolError("sql: the statement is empty. Write one.")
        with self._held() as guard:
            guard.begin()
            try:
                return self._answer(guard.connection, statement)
            except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
                raise ToolError(f"sql: {_in_words(guard, error)}") from None

    def _answer(self, connection: sqlite3.Connection, statement: str) -> str:
        cursor = connection.cursor()
        try:
            cursor.execute(statement)
            if cursor.description is None:
                count = cursor.rowcount
                return "Done." if count < 0 else f"Done. {count} row{'s' * (count != 1)} changed."
            rows = cursor.fetchmany(self._max_rows + 1)
            names = [column[0] for column in cursor.description]
        finally:
            cursor.close()
        return _table(names, rows, self._max_rows)

    @contextmanager
    def _held(self) -> Iterator[Guard]:
        """The database, for one caller at a time."""
        if (guard := self._guard) is None:
            raise UsageError("sql: no episode has begun. Call start first.")
        with guard.held():
            yield guard

    def _copy(self) -> sqlite3.Connection:
        connection = memory()
        with _COPYING:
            _template(*self._source).backup(connection)
        for table, rows in self._rows.items():
            _insert(connection, table, rows)
        return connection


@lru_cache(maxsize=8)
def _template(script: str, path: Path | None) -> sqlite3.Connection:
    """The database as it begins, made once a process."""
    connection = memory()
    if path is not None:
        try:
            source = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
            try:
                source.backup(connection)
            finally:
                source.close()
        except sqlite3.Error as error:
            raise UsageError(f"{path}: no database ({error}). Give a SQLite file.") from error
    _run_script("the script", connection, script)
    return connection


def _run_script(what: str, connection: sqlite3.Connection, script: str) -> None:
    try:
        connection.executescript(script)
        connection.commit()  # a transaction left open would not be copied
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise UsageError(f"sql: {what} fails: {error}. Try it with the sqlite3 program.") from error


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not columns:
        raise UsageError(f"sql: the rows of {table} have no columns. Make the table in a script.")
    names = ", ".join(map(_quoted, columns))
    places = ", ".join("?" * len(columns))
    try:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(table)} ({names})")
        connection.executemany(
            f"INSERT INTO {_quoted(table)} ({names}) VALUES ({places})",
            ([row.get(name) for name in columns] for row in rows),
        )
    except (sqlite3.Error, ValueError, OverflowError) as error:
        raise UsageError(
            f"sql: a row of {table} cannot be kept: {error}. "
            "Give text, numbers below 2^63, bytes or None."
        ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_words(guard: Guard, error: Exception) -> str:
    if guard.refused:
        return f"{guard.refused}."
    if guard.stopped:
        return f"the statement took {guard.stopped} and was stopped. Ask for less at a time."
    if isinstance(error, MemoryError):
        return "the statement needs more memory than there is. Ask for less at a time."
    text = str(error)[:MAX_CELL].rstrip(".")
    if text.startswith("no such table"):
        guard.begin()
        names = ", ".join(name for (name,) in guard.connection.execute(_TABLES).fetchmany(20))
        return f"{text}. There is {names[:MAX_CELL] or 'none yet'}."
    return f"{text}."


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]], most: int) -> str:
    lines = [" | ".join(_cell(name) for name in names)]
    room = MAX_OUTPUT - len(lines[0])
    for row in rows[:most]:
        line = " | ".join(_cell(value) for value in row)
        room -= len(line) + 1
        if room < 0 and len(lines) > 1:
            break
        lines.append(line)
    shown = len(lines) - 1
    if shown < len(rows):
        lines.append(
            f"[only the first {shown} rows are shown; use LIMIT and OFFSET, or fewer columns]"
        )
    elif not rows:
        lines.append("[no rows]")
    return "\n".join(lines)[: MAX_OUTPUT + 200]


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        more = "..." if len(value) > 16 else ""
        return f"x'{value[:16].hex()}{more}' ({len(value)} bytes)"
    if isinstance(value, str):
        text = value[: MAX_CELL + 1].replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        more = f"... ({len(value)} characters)"
        return text if len(value) <= MAX_CELL else text[:MAX_CELL] + more
    return repr(value)
