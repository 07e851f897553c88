"""Files: a scratch folder of its own for every episode.

In    the files that a task begins with; paths and text, whatever a policy may write
Out   text, or ToolError in words that the policy may read; what is left, for the reward
Not   files of the machine: they lie in memory, and in the sandbox where Python shares them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

from pydantic import Field

from agentrl.errors import ToolError, UsageError
from agentrl.task import Task
from agentrl.toolbox import Toolbox
from agentrl.tooling import tool
from agentrl_tools._folder import Folder

PAGE = 6000
"""Characters of a file that are shown at a time."""
MAX_LISTED = 100
MAX_MEGABYTES = 8.0
MAX_FILES = 1000


class Files(Toolbox):
    """Keep files in a folder that is the episode's own."""

    def __init__(
        self,
        *,
        setup: Callable[[Task], Mapping[str, str | bytes]] | None = None,
        megabytes: float = 1.0,
        max_files: int = 100,
    ) -> None:
        """Say what may be kept.

        Args:
            setup: From a task to the files that it begins with, by path.
            megabytes: Most bytes of all files together, in millions.
            max_files: Most files.

        Raises:
            UsageError: A number is out of range.
        """
        if not 0 < megabytes <= MAX_MEGABYTES or not 0 < max_files <= MAX_FILES:
            raise UsageError(
                f"files: megabytes={megabytes}, max_files={max_files}. Give more than 0, and at "
                f"most {MAX_MEGABYTES:g} and {MAX_FILES}."
            )
        self._setup, self._quota = setup, (int(megabytes * 1e6), max_files)
        self._folder: Folder | None = None

    def start(self, task: Task) -> None:
        """Lay out what the task begins with."""
        folder = Folder(*self._quota)
        given = self._setup(task) if self._setup is not None else {}
        try:
            folder.replace({path: _bytes(content) for path, content in given.items()})
        except ToolError as error:
            raise UsageError(f"files: the setup of a task can't be laid out. {error}") from None
        self._folder = folder

    def release(self) -> None:
        """Forget the files."""
        self._folder = None

    @property
    def folder(self) -> Folder:
        """The files of the episode that is played."""
        if self._folder is None:
            raise UsageError(
                "files: no episode has begun. Name the box in toolboxes, or call start first."
            )
        return self._folder

    def contents(self) -> dict[str, bytes]:
        """What each file holds, sorted by path; all of it is the policy's word."""
        return self.folder.contents()

    def text(self, path: str) -> str | None:
        """A file as text, for a reward; None where there is none, or it is no text."""
        content = self.folder.contents().get(path)
        return None if content is None else _text(content)

    @tool
    def list_files(self) -> str:
        """List your files and their sizes."""
        files = self.folder.contents()
        lines = [
            f"{path} ({len(content)} byte{'s' * (len(content) != 1)})"
            for path, content in files.items()
        ]
        if len(lines) > MAX_LISTED:
            lines[MAX_LISTED:] = [f"[and {len(lines) - MAX_LISTED} more]"]
        return "\n".join(lines) or "There are no files yet."

    @tool
    def read_file(self, path: str, start: Annotated[int, Field(ge=0)] = 0) -> str:
        """Read a file, some thousand characters at a time.

        Args:
            path: Its path, such as notes.txt or data/a.csv.
            start: How many characters to pass over.
        """
        with _told("read_file"):
            text = self._read(path)
            length = len(text)
            if start and start >= length:
                raise ToolError(f"{path} has {length} characters. Start before that.")
        end = min(start + PAGE, length)
        more = f"Go on with start={end}." if end < length else "This is its end."
        return f"[{path}, characters {start} to {end} of {length}. {more}]\n{text[start:end]}"

    @tool(parallel=False)
    def write_file(self, path: str, content: str) -> str:
        """Write a file; what it held before is lost.

        Args:
            path: Its path, such as notes.txt or data/a.csv.
            content: Its text.
        """
        with _told("write_file"):
            return self._write(path, content)

    @tool(parallel=False)
    def append_file(self, path: str, content: str) -> str:
        """Add text to the end of a file; one that is not there is made.

        Args:
            path: Its path.
            content: What to add, line ends included.
        """
        with _told("append_file"):
            before = self._read(path) if path in self.folder.contents() else ""
            return self._write(path, before + content)

    @tool(parallel=False)
    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a piece of a file.

        Args:
            path: Its path.
            old: The text to replace, which the file holds exactly once.
            new: What to put in its place.
        """
        with _told("edit_file"):
            text = self._read(path)
            count = text.count(old) if old else 0
            if count != 1:
                found = f"is in {path} {count} times" if old else "is empty"
                raise ToolError(f"old {found}. Give a text that {path} holds exactly once.")
            return self._write(path, text.replace(old, new))

    @tool(parallel=False)
    def delete_file(self, path: str) -> str:
        """Delete a file.

        Args:
            path: Its path.
        """
        with _told("delete_file"):
            self.folder.delete(path)
        return f"{path} is deleted."

    def _read(self, path: str) -> str:
        content = self.folder.read(path)
        text = _text(content)
        if text is None:
            raise ToolError(f"{path} is no text: {len(content)} bytes of another kind.")
        return text

    def _write(self, path: str, text: str) -> str:
        self.folder.write(path, _bytes(text))
        return f"{path} now has {len(text)} character{'s' * (len(text) != 1)}."


def _bytes(content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"the text has half a surrogate pair at character {error.start}. Write it anew."
        ) from None


def _text(content: bytes) -> str | None:
    """The text that some bytes are; None where they are none."""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Put the tool's name before what it says no with."""
    try:
        yield
    except ToolError as error:
        raise ToolError(f"{name}: {error}") from None
