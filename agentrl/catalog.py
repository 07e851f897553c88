"""Classes by name: what a word on the command line leads to.

In    `name`, `module:Class` or `path/file.py:Class`, and options
Out   the class, or an instance
Not   imports before one is asked for: names and first lines are read without importing anything

Names are the modules of a package of ours, other people's entry points, and what was registered.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeGuard, TypeVar

from agentrl.arguments import hint_of, misfit
from agentrl.errors import UsageError, blame, suggestion

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Catalog(Generic[T]):
    """One kind of class, and where to look for it."""

    base: type[T]
    package: str
    """Its modules are names; each defines one class."""
    group: str
    """Of entry points."""
    noun: str
    """What a person calls it."""
    flag: str
    """What the name stands behind on a command line."""
    option: str
    """The flag that begins its options."""
    listing: str
    """The command that lists all."""
    registered: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, text: str) -> type[T]:
        """The class that a text names; UsageError says what was looked for."""
        place, _, attribute = text.rpartition(":") if ":" in text else (text, "", "")
        if place.endswith(".py"):
            return self._pick(text, _load_file(self._where(text), Path(place)), attribute)
        if attribute:
            return self._pick(text, _load(self._where(text), place), attribute)
        targets = self._targets().get(text, [])
        if len(targets) > 1:
            raise UsageError(
                f"{self._where(text)}: found twice: {' and '.join(targets)}. "
                "Give one as module:Class."
            )
        if not targets:
            if "*" in text or "," in text:
                raise UsageError(
                    f"{self._where(text)}: no {self.noun} is called so. A mixture is for training "
                    "and measuring; name one of its parts here."
                )
            known = self.names()
            hints = [suggestion(text, known), f"`{self.listing}` lists all {len(known)}."]
            raise UsageError(
                f"{self._where(text)}: no such {self.noun}. {' '.join(h for h in hints if h)}"
            )
        module, _, attribute = targets[0].partition(":")
        return self._pick(text, _load(self._where(text), module), attribute)

    def make(self, text: str, options: Mapping[str, Any]) -> T:
        """An instance of what a text names, with options as keyword arguments."""
        cls = self.resolve(text)
        self.check_options(text, cls, options)
        # Any word would count as true, and nothing would break.
        self._check_types(cls, {k: v for k, v in options.items() if hint_of(cls, k) is bool})
        with blame(UsageError, self._where(text)):
            try:
                return cls(**options)
            except (TypeError, ValueError, AttributeError):
                self._check_types(cls, options)
                raise

    def names(self) -> list[str]:
        """Every name that `resolve` knows, sorted."""
        return sorted(self._targets())

    def first_lines(self) -> dict[str, str]:
        """The first line of each class's docstring; empty where there is none to read."""
        return {
            name: _first_line(*targets[0].partition(":")[::2])
            for name, targets in sorted(self._targets().items())
        }

    def _where(self, text: str) -> str:
        return f"{self.flag} {text}"

    def _targets(self) -> dict[str, list[str]]:
        """Where each name leads: `module` or `module:Class`, without repetitions."""
        found: dict[str, list[str]] = {}
        others = _entry_points(self.group, tuple(sys.path))
        for name, target in (*_modules(self.package), *self.registered.items(), *others):
            targets = found.setdefault(name, [])
            if target not in targets:
                targets.append(target)
        return found

    def _pick(self, text: str, module: ModuleType, attribute: str) -> type[T]:
        """The named class of a module, or the only one that it defines."""
        base = self.base.__name__
        own = {
            name: value
            for name, value in vars(module).items()
            if self._fits(value)
            and value.__module__ == module.__name__
            and not name.startswith("_")
        }
        if attribute:
            found = getattr(module, attribute, None)
            if self._fits(found):
                return found
            why = f"it is not a {base}" if found is not None else "it is not there"
            hint = suggestion(attribute, own, f"There is {', '.join(own) or f'no {base}'}.")
            raise UsageError(f"{self._where(text)}: no {self.noun} {attribute}: {why}. {hint}")
        if len(own) != 1:
            raise UsageError(
                f"{self._where(text)}: it defines {', '.join(own) or f'no {base}'}. "
                "Name one class, as in module:Class or file.py:Class."
            )
        return next(iter(own.values()))

    def _fits(self, value: Any) -> TypeGuard[type[T]]:
        return isinstance(value, type) and issubclass(value, self.base) and value is not self.base

    def _check_types(self, cls: type[T], options: Mapping[str, Any]) -> None:
        """Say which option is of a wrong type; the hints are asked only where something broke."""
        for key, value in options.items():
            if why := misfit(cls.__init__, key, value):
                raise UsageError(
                    f"{self.option}.{key}: {value!r:.200} does not fit ({why}). Give it otherwise, "
                    "or leave it out."
                )

    def check_options(self, text: str, cls: type[T], options: Mapping[str, Any]) -> None:
        """Refuse options that a class does not take, with the nearest that it does."""
        parameters = inspect.signature(cls).parameters
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return
        for key in options:
            if key not in parameters:
                known = f"Its options: {', '.join(parameters)}." if parameters else "It has none."
                raise UsageError(
                    f"{self.option}.{key}: {text} has no such option. "
                    f"{suggestion(key, parameters, known)}"
                )


def _modules(package: str) -> Iterator[tuple[str, str]]:
    spec = importlib.util.find_spec(package)
    for module in pkgutil.iter_modules(spec.submodule_search_locations if spec else []):
        if not module.name.startswith("_"):
            yield module.name, f"{package}.{module.name}"


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    # Reading what is installed takes a while, and depends on the path alone.
    return tuple((point.name, point.value) for point in entry_points(group=group))


def _load(where: str, module: str) -> ModuleType:
    with blame(UsageError, f"{where}: {module} can't be imported"):
        return importlib.import_module(module)


def _load_file(where: str, path: Path) -> ModuleType:
    """A module from a file, under a private name: its folder needs no packaging."""
    if not path.is_file():
        raise UsageError(f"{where}: there is no file {path}. Check the path.")
    name = f"_agentrl_file_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{where}: {path} is not a Python file. Name a .py file.")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with blame(UsageError, f"{where}: {path} can't be imported"):
            spec.loader.exec_module(module)
    except UsageError as error:
        del sys.modules[name]
        line = _line_in(str(path), error.__cause__)
        raise UsageError(f"{error}{f' ({path}:{line})' if line else ''}") from error.__cause__
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _line_in(file: str, error: BaseException | None) -> int:
    """The innermost line of a file that an exception came through; 0 where there is none."""
    trace, line = error.__traceback__ if error else None, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _first_line(module: str, attribute: str) -> str:
    path = _source(module)
    if path is None:
        return ""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    named = [node for node in classes if node.name == attribute]
    nodes: list[ast.Module | ast.ClassDef] = [*named, tree, *classes]
    for node in nodes:
        if text := ast.get_docstring(node):
            return text.splitlines()[0]
    return ""


def _source(module: str) -> Path | None:
    """The file of a module, found without importing its parents."""
    top, *rest = module.split(".")
    spec = sys.modules[top].__spec__ if top in sys.modules else importlib.util.find_spec(top)
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for root in spec.submodule_search_locations or ():
        base = Path(root, *rest)
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None
