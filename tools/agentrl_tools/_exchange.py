"""Exchange: the files of an episode, laid out for the code of a session and taken back after it.

In    files in memory; a sandbox with a folder to write to
Out   cells that find the files in the folder they start in; what they leave there, in memory again
Not   trust in what comes back: names, sizes and count are checked here; what they hold is the
      policy's word
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace

from agentrl.errors import EnvironmentFault, ToolError
from agentrl.sandbox import Limits, Result, Sandbox
from agentrl.sandbox.jail import SCRATCH
from agentrl_tools._ending import ending
from agentrl_tools._exchange_program import PROGRAM
from agentrl_tools._folder import NAME, Folder

LEVEL = 3
"""Where code has a folder to write to."""
CHUNK = 30_000
"""Bytes of files in one cell: as base64 they must fit into the code of one."""
Change = tuple[str, str, str]
"""What to do, a path, and a piece of content as base64."""
_STAY = "the files are as they were before this code"


class Exchange:
    """A session, and the files that its code shares with the tools of `Files`."""

    def __init__(self, sandbox: Sandbox, folder: Folder, limits: Limits) -> None:
        """Begin a session, in a sandbox of that level."""
        self._sandbox, self._folder, self._limits = sandbox, folder, limits
        room = 2 * folder.most_bytes + 200 * folder.most_files + 10_000
        self._wide = Limits(output_kept=2 * room, output_most=room)
        self._session = sandbox.session(limits=limits)
        self._inside: dict[str, bytes] | None = {}
        """What lies in the session's folder; None where that is not known."""

    def run(self, code: str) -> tuple[Result, str]:
        """Run a cell among the files, and say what became of them; empty where all is well."""
        forgot = self._lay_out()
        result = self._session.run(code)
        if forgot:
            result = replace(result, restarted=True)
        if result.lost:
            self._inside = {}
            return result, _STAY if self._folder.contents() else ""
        return result, self._take_back()

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _lay_out(self) -> bool:
        """Bring the files in; whether that began a new session, without the old variables."""
        forgot = False
        for _ in range(3):
            result = self._sent()
            forgot = forgot or result.restarted or result.lost
            if _sound(result):
                return forgot
            self._inside = {}
            if result.status != "ok":
                # Code before it left its process unable to write files: that is its own doing.
                self._session.close()
                self._session, forgot = self._sandbox.session(limits=self._limits), True
        raise EnvironmentFault(
            "python: the files can't be laid out in the sandbox, also in a new session."
        )

    def _sent(self) -> Result:
        """The result of the last cell that brings changes, or of the first that didn't work."""
        wanted = self._folder.contents()
        *first, last = _in_cells(_changes(self._inside, wanted))
        for asked in first:
            result = self._cell(f"lay_out({SCRATCH!r}, {asked!r})")
            if not _sound(result):
                return result
        self._inside = wanted
        return self._cell(f"lay_out({SCRATCH!r}, {last!r})")

    def _take_back(self) -> str:
        most = (self._folder.most_bytes, self._folder.most_files)
        self._inside = None
        result = self._cell(f"show({SCRATCH!r}, {NAME!r}, {most!r})")
        if not _sound(result) or result.cut:
            return f"the files could not be read: {_STAY}"
        try:
            files, note = _read(result.stdout)
            self._folder.replace(files)
        except (ToolError, ValueError) as error:
            why = str(error) if isinstance(error, ToolError) else "the files could not be read"
            return f"{why.rstrip('.')}: {_STAY}"
        self._inside = files
        return note

    def _cell(self, call: str) -> Result:
        result = self._session.run(f"{PROGRAM}\nexchange().{call}\n", limits=self._wide)
        ending(result, self._wide)
        return result


def _sound(result: Result) -> bool:
    """Whether a cell ran to its end in the process that the one before it left."""
    return result.status == "ok" and not (result.lost or result.restarted)


def _changes(inside: dict[str, bytes] | None, wanted: dict[str, bytes]) -> Iterator[Change]:
    """Yield what to do, each with a path and a piece of content."""
    if inside is None:
        yield ("clear", "", "")
        inside = {}
    yield from (("delete", path, "") for path in inside if path not in wanted)
    for path, content in wanted.items():
        if inside.get(path) == content:
            continue
        for start in range(0, len(content) or 1, CHUNK):
            piece = base64.b64encode(content[start : start + CHUNK]).decode()
            yield ("append" if start else "write", path, piece)


def _in_cells(changes: Iterator[Change]) -> Iterator[list[Change]]:
    """Yield changes in as many lists as cells are needed, at least one."""
    cell: list[Change] = []
    size = 0
    for change in changes:
        length = 30 + sum(map(len, change))
        if cell and size + length > CHUNK * 3 // 2:
            yield cell
            cell, size = [], 0
        cell.append(change)
        size += length
    yield cell


def _read(text: str) -> tuple[dict[str, bytes], str]:
    """The files that a cell showed, and a word on what was left out."""
    *lines, last = text.splitlines() or [""]
    word, shown, others = last.split(" ")
    if word == "too-much":
        raise ToolError(f"the code left more than the {shown} bytes or {others} files that fit")
    if word != "end" or int(shown) != len(lines):
        raise ValueError("it is not what the program prints")
    files = {}
    for line in lines:
        path, content = line.split(" ")
        files[path] = base64.b64decode(content, validate=True)
    left = f"{int(others)} of what it left are no plain files with plain names, and not kept"
    return files, left if int(others) else ""
