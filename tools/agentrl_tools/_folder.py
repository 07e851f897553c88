"""Folder: files by name, in memory, under a quota.

In    paths and contents of any origin
Out   the same contents, or ToolError in words that the policy may read
Not   a folder of the machine: no path is ever opened, so there is nothing to break out of
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentrl.errors import ToolError, suggestion

MAX_PATH = 100
"""Characters."""
MAX_DEPTH = 8
"""Folders inside each other."""
NAME = "[A-Za-z0-9_-][A-Za-z0-9._-]*"
"""Of a file or folder: none is hidden, none leads upwards, none looks like another."""
_PATH = re.compile(f"{NAME}(/{NAME})*")
_SHOWN = 80


class Folder:
    """What an episode keeps as files."""

    def __init__(self, most_bytes: int, most_files: int) -> None:
        """Begin empty."""
        self.most_bytes, self.most_files = most_bytes, most_files
        self._files: dict[str, bytes] = {}

    def contents(self) -> dict[str, bytes]:
        """All files, sorted by path."""
        return dict(sorted(self._files.items()))

    def read(self, path: str) -> bytes:
        """What a file holds."""
        if path not in self._files:
            there = "See list_files." if self._files else "There are none yet."
            hint = suggestion(path[:_SHOWN], self._files, there)
            raise ToolError(f"there is no file {path[:_SHOWN]!r}. {hint}")
        return self._files[path]

    def write(self, path: str, content: bytes) -> None:
        """Make a file, or put another content in its place."""
        self.replace({**self._files, path: content})

    def delete(self, path: str) -> None:
        """Forget a file."""
        self.read(path)
        del self._files[path]

    def replace(self, files: Mapping[str, bytes]) -> None:
        """Put all files in the place of what there was; nothing is changed where one can't be."""
        for path in files.keys() - self._files.keys():
            _check(path, files)
        if len(files) > self.most_files:
            raise ToolError(f"at most {self.most_files} files fit. Delete one first.")
        size = sum(map(len, files.values()))
        if size > self.most_bytes:
            raise ToolError(
                f"the files would have {size} bytes together, and {self.most_bytes} fit. "
                "Write less, or delete a file first."
            )
        self._files = dict(files)


def _check(path: str, files: Mapping[str, bytes]) -> None:
    """Refuse a path that can't be, or that can't be beside the others."""
    shown = repr(path[:_SHOWN])
    if len(path) > MAX_PATH or path.count("/") >= MAX_DEPTH or not _PATH.fullmatch(path):
        raise ToolError(
            f"{shown} can't be a path. Write names of letters a to z, digits, . _ and -, with / "
            f"between folders, such as notes/day-1.txt; {MAX_PATH} characters at most, no name "
            "begins with a dot."
        )
    parts = path.split("/")
    above = next((p for n in range(1, len(parts)) if (p := "/".join(parts[:n])) in files), None)
    if above is not None:
        raise ToolError(f"{shown}: {above} is a file, so nothing can lie in it. Take another name.")
    if any(other.startswith(f"{path}/") for other in files):
        raise ToolError(f"{shown} is a folder already. Take another name.")
