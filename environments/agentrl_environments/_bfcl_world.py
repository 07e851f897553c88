"""The world of one episode: the leaderboard's classes, each an instance of its own.

In    an Entry; calls by name, with arguments that JSON can write
Out   what a call returns, as the leaderboard's text; whether two worlds are in the same state
Not   eval, nor anything shared between worlds: what the package's modules hold is copied

Its methods are trusted code that was not written for hostile arguments. What would keep a
processor busy for ever is refused here beforehand: numbers, and a file system that copies of
copies let grow.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import localcontext
from itertools import islice
from typing import Any, Final

from agentrl.errors import BadArguments, EnvironmentFault, blame
from agentrl_environments._bfcl_data import CLASSES, PACKAGE, Entry

STATELESS: Final = frozenset({"MathAPI"})
FILE_SYSTEM: Final = "GorillaFileSystem"
MAX_FILES: Final = 10_000
"""Of a file system, counted along every way that leads to one."""
MAX_BITS: Final = 100_000
"""Of a power of whole numbers."""
MAX_DIGITS: Final = 1000
"""That a result is asked for."""
_PLAIN: Final = re.compile(r"[-+.\d]{1,400}", re.ASCII)
FAILED: Final = "Error during execution: "
_one_at_a_time = threading.RLock()
"""The package's modules keep a precision and a text for the whole process."""


class World:
    """The instances of one episode, and their methods by name."""

    def __init__(self, entry: Entry) -> None:
        """Make them as the entry says; EnvironmentFault where the package can't."""
        with blame(EnvironmentFault, f"bfcl: {entry.id}"), _undisturbed():
            self._instances = {name: _instance(name, entry) for name in entry.classes}
        self._methods: dict[str, Callable[..., Any]] = {}
        self._owners: dict[str, str] = {}
        for owner, instance in self._instances.items():
            for name, method in inspect.getmembers(instance, inspect.ismethod):
                if not name.startswith("_"):
                    self._methods[name], self._owners[name] = method, owner

    def order(self, name: str) -> list[str]:
        """Names of a function's parameters."""
        return list(inspect.signature(self._methods[name]).parameters)

    def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a function; what it returns or raises as text.

        Raises:
            BadArguments: There is no such function, or it would take too long.
        """
        if name not in self._methods:
            raise BadArguments(f"there is no function {name[:80]}.")
        refuse_endless(name, arguments)
        if self._owners[name] == FILE_SYSTEM:
            _refuse_overgrown(self._instances[FILE_SYSTEM])
        with _undisturbed():
            try:
                # Some methods change a list that they are given.
                return _as_text(self._methods[name](**copy.deepcopy(dict(arguments))))
            except Exception as error:
                return FAILED + str(error)

    def same(self, other: World) -> bool:
        """Whether every public attribute of every instance is equal."""
        pairs = ((self._instances[name], other._instances[name]) for name in self._instances)
        return all(_same(*pair) for pair in pairs)


def refuse_endless(name: str, arguments: Mapping[str, Any]) -> None:
    """BadArguments for numbers that would keep a processor busy for ever."""
    for digits in ("precision", "decimal_places"):
        if not _size(arguments.get(digits)) <= MAX_DIGITS:
            raise BadArguments(f"{name}: {digits} may be {MAX_DIGITS} at most.")
    base, exponent = arguments.get("base"), arguments.get("exponent")
    if name == "power" and isinstance(base, int) and isinstance(exponent, int):
        _refuse_large(base, exponent)
    texts = [t for t in (arguments.get("value"), base) if isinstance(t, str)]
    if name == "logarithm" and not all(map(_PLAIN.fullmatch, texts)):
        # It reads texts, and would write 1e1000000000 out.
        raise BadArguments("logarithm: value and base must be numbers.")


def _refuse_large(base: int, exponent: int) -> None:
    if abs(exponent) * base.bit_length() > MAX_BITS:
        raise BadArguments("power: the result is too large.")


def _size(value: Any) -> float:
    """How far from 0 a number is, or a text that a function would read as one."""
    try:
        return abs(float(value))
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return 0.0


def _refuse_overgrown(system: Any) -> None:
    """BadArguments where copies of folders share so much that a walk would not end."""
    if sum(1 for _ in islice(_files(system.root), MAX_FILES)) >= MAX_FILES:
        raise BadArguments(f"the file system is full: it holds {MAX_FILES} files and folders.")


def _files(root: Any) -> Iterator[Any]:
    """Everything below a folder, one by one; a folder that holds itself has no end."""
    level = [root]
    while level:
        inner = list(getattr(level.pop(), "contents", {}).values())
        yield from inner
        level += inner


def _instance(name: str, entry: Entry) -> Any:
    where = f"{PACKAGE}.eval_checker.multi_turn_eval.func_source_code.{CLASSES[name]}"
    made = getattr(importlib.import_module(where), name)()
    if name not in STATELESS:
        made._load_scenario(copy.deepcopy(entry.config.get(name, {})), long_context=entry.long)
    # What a module holds for all, such as the credit cards of long_context, becomes its own.
    return copy.deepcopy(made)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """One at a time, with the precisions of the process put back afterwards."""
    with _one_at_a_time, localcontext():
        numbers = importlib.import_module("mpmath").mp
        before = numbers.dps
        try:
            yield
        finally:
            numbers.dps = before


def _as_text(value: Any) -> str:
    """A result as the leaderboard compares and shows it."""
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(value)


def _same(one: Any, other: Any) -> bool:
    public: Sequence[str] = [name for name in vars(other) if not name.startswith("_")]
    try:
        return all(getattr(one, name) == getattr(other, name) for name in public)
    except RecursionError:
        # Folders within themselves; no right solution makes any.
        return False
