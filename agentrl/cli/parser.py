"""Words → options of a command, with mistakes told in our own shape.

In    the words behind a command; for settings, a model and its short flags
Out   an argparse namespace; the flags that are settings, in the order they were given
Not   the meaning of a setting (settings.py)
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from agentrl.errors import UsageError, suggestion

_DOTTED = re.compile(r"--[A-Za-z_][\w-]*\.[^=]+")


class Parser(argparse.ArgumentParser):
    """argparse, refusing what it does not know by name."""

    def __init__(self, command: str, summary: str, examples: Sequence[str]) -> None:
        """A command with its two examples and the options of every command."""
        super().__init__(
            prog=f"agentrl {command}",
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog="examples:\n" + "\n".join(f"  agentrl {command} {e}" for e in examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._options = ["--help"]
        self.add_argument("--json", action="store_true", help="one JSON document on stdout")
        self.add_argument("-q", "--quiet", action="store_true", help="only the result")
        self.add_argument("-v", "--verbose", action="store_true", help="tracebacks and warnings")

    def add_argument(self, *names: Any, **how: Any) -> argparse.Action:
        """As argparse does, remembering the name for suggestions."""
        if names[-1] != "--help":
            self._options += [name for name in names if name.startswith("--")]
        return super().add_argument(*names, **how)

    def read(self, words: Sequence[str], more: Collection[str] = ()) -> argparse.Namespace:
        """Parse all words; `more` are options that were taken out before."""
        args, rest = self.parse_known_args(_joined(words))
        if rest:
            name = rest[0].partition("=")[0]
            kind = "option" if name.startswith("-") else "argument"
            hint = suggestion(name, [*self._options, *more], f"`{self.prog} --help` lists all.")
            raise UsageError(f"{name}: no such {kind} of `{self.prog}`. {hint}")
        return args

    def error(self, message: str) -> NoReturn:
        """Tell argparse's complaint as ours."""
        missing = message.removeprefix("the following arguments are required: ")
        where, _, what = message.removeprefix("argument ").partition(": ")
        if missing != message:
            where, what = missing, "required"
        raise UsageError(f"{where}: {what or 'not understood'}. `{self.prog} --help` shows how.")


def _joined(words: Sequence[str]) -> list[str]:
    """Join a list that begins with a minus to its option: argparse would take it for one."""
    out: list[str] = []
    for word in words:
        if out and out[-1].startswith("--") and re.match(r"-[.\d]", word):
            out[-1] += f"={word}"
        else:
            out.append(word)
    return out


def split_settings(
    words: Sequence[str], short: Mapping[str, str], switches: Collection[str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Take the flags that are settings out of the words.

    Args:
        words: The words behind the command.
        short: Short flags, each to its setting.
        switches: Settings that may stand alone, which means true.
    """
    flags: list[tuple[str, str]] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, joined, text = word.partition("=")
        if name not in short and not _DOTTED.fullmatch(name):
            rest.append(word)
        elif joined:
            flags.append((name, text))
        elif left and not left[0].startswith("--"):
            flags.append((name, left.pop(0)))
        elif short.get(name, name.removeprefix("--")) in switches:
            flags.append((name, "true"))
        else:
            raise UsageError(f"{name}: a value must follow. Write {name} VALUE.")
    return flags, rest
