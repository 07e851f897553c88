"""Environments by name.

In    `name`, `module:Class` or `path/file.py:Class`, and options
Out   the class, or an instance
Not   imports before one is asked for: names and first lines are read without importing anything

Built-in environments are the modules of the package `agentrl_environments`; other people's come
from the entry points `agentrl.environments`, or from `register`.
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
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from agentrl.env import ToolEnv
from agentrl.errors import UsageError, blame, suggestion

BUILT_INS = "agentrl_environments"
GROUP = "agentrl.environments"

_registered: dict[str, str] = {}


def register(name: str, target: str) -> None:
    """Give the class at `module:Class` a name, for this process."""
    if not name or any(mark in name for mark in ":*, ") or name.endswith(".py"):
        raise UsageError(f"register: {name!r} can't be a name. Use letters, digits, _ and -.")
    if ":" not in target:
        raise UsageError(f"register {name}: {target!r} is no target. Write 'module:Class'.")
    if _registered.setdefault(name, target) != target:
        raise UsageError(
            f"register {name}: the name stands for {_registered[name]} already. Take another."
        )


def resolve(text: str) -> type[ToolEnv]:
    """The class that a text names; UsageError says what was looked for."""
    place, _, attribute = text.rpartition(":") if ":" in text else (text, "", "")
    if place.endswith(".py"):
        return _pick(text, _load_file(text, Path(place)), attribute)
    if attribute:
        return _pick(text, _load(text, place), attribute)
    targets = _targets().get(text, [])
    if len(targets) > 1:
        raise UsageError(
            f"--env {text}: found twice: {' and '.join(targets)}. Give one as module:Class."
        )
    if not targets:
        known = names()
        hints = [suggestion(text, known), f"`agentrl envs list` lists all {len(known)}."]
        raise UsageError(f"--env {text}: no such environment. {' '.join(h for h in hints if h)}")
    module, _, attribute = targets[0].partition(":")
    return _pick(text, _load(text, module), attribute)


def make(text: str, **options: Any) -> ToolEnv:
    """An instance of what a text names, with options as keyword arguments."""
    cls = resolve(text)
    _check_options(text, cls, options)
    with blame(UsageError, f"--env {text}"):
        return cls(**options)


def names() -> list[str]:
    """Every name that `resolve` knows, sorted."""
    return sorted(_targets())


def first_lines() -> dict[str, str]:
    """The first line of each environment's docstring; empty where there is none to read."""
    return {
        name: _first_line(*targets[0].partition(":")[::2])
        for name, targets in sorted(_targets().items())
    }


def _targets() -> dict[str, list[str]]:
    """Where each name leads: `module` or `module:Class`, without repetitions."""
    found: dict[str, list[str]] = {}
    for name, target in (*_built_ins(), *_registered.items(), *_entry_points(tuple(sys.path))):
        targets = found.setdefault(name, [])
        if target not in targets:
            targets.append(target)
    return found


def _built_ins() -> Iterator[tuple[str, str]]:
    spec = importlib.util.find_spec(BUILT_INS)
    for module in pkgutil.iter_modules(spec.submodule_search_locations if spec else []):
        if not module.name.startswith("_"):
            yield module.name, f"{BUILT_INS}.{module.name}"


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    # Reading what is installed takes a while, and depends on the path alone.
    return tuple((point.name, point.value) for point in entry_points(group=GROUP))


def _load(text: str, module: str) -> ModuleType:
    with blame(UsageError, f"--env {text}: {module} can't be imported"):
        return importlib.import_module(module)


def _load_file(text: str, path: Path) -> ModuleType:
    """A module from a file, under a private name: its folder needs no packaging."""
    if not path.is_file():
        raise UsageError(f"--env {text}: there is no file {path}. Check the path.")
    name = f"_agentrl_file_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--env {text}: {path} is not a Python file.")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with blame(UsageError, f"--env {text}: {path} can't be imported"):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _pick(text: str, module: ModuleType, attribute: str) -> type[ToolEnv]:
    """The named class of a module, or the only environment that it defines."""
    own = {
        name: value
        for name, value in vars(module).items()
        if _is_env(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    if attribute:
        found = getattr(module, attribute, None)
        if _is_env(found):
            return found
        why = "it is not a ToolEnv" if found is not None else "it is not there"
        hint = suggestion(attribute, own, f"There is {', '.join(own) or 'no ToolEnv'}.")
        raise UsageError(f"--env {text}: no environment {attribute}: {why}. {hint}")
    if len(own) != 1:
        raise UsageError(
            f"--env {text}: it defines {', '.join(own) or 'no ToolEnv'}. "
            "Name one class, as in module:Class or file.py:Class."
        )
    return next(iter(own.values()))


def _is_env(value: Any) -> TypeGuard[type[ToolEnv]]:
    return isinstance(value, type) and issubclass(value, ToolEnv) and value is not ToolEnv


def _check_options(text: str, cls: type[ToolEnv], options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(cls).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for key in options:
        if key not in parameters:
            known = f"Its options: {', '.join(parameters)}." if parameters else "It has none."
            raise UsageError(
                f"--env.{key}: {text} has no such option. {suggestion(key, parameters, known)}"
            )


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
