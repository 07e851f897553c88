"""Every refusal that the source can make, as the text that a person would read.

In    Python files
Out   each `raise UsageError(...)` with its possible texts; what is filled in later is `{}`
Not   a run of the code: texts that another function brings whole are `{}` too
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ("UsageError", "SandboxUnavailable")
HOLE = "{}"
MOST = 64
"""Texts of one refusal that are looked at: those with many choices have them in few places."""
DEPTH = 6


@dataclass(frozen=True)
class Refusal:
    """One place that says no."""

    where: str
    text: str


@dataclass(frozen=True)
class Module:
    """A file with what its names stand for."""

    path: Path
    tree: ast.Module

    @cached_property
    def functions(self):
        return {n.name: n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)}

    @cached_property
    def constants(self):
        return dict(_assigned(self.tree.body))

    @cached_property
    def imported(self):
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentrl"):
                found |= {a.asname or a.name: (node.module, a.name) for a in node.names}
        return found


@cache
def module(path: Path) -> Module:
    """A file, parsed once."""
    return Module(path, ast.parse(path.read_text(encoding="utf-8")))


def refusals(root: Path, kinds: Sequence[str] = KINDS) -> Iterator[Refusal]:
    """All of a file, or of a folder's files."""
    for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        if "templates" in path.parts:
            continue
        here = module(path)
        for scope, node in _raises(here.tree, None, kinds):
            shown = f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{node.lineno}"
            args = node.exc.args
            texts = _texts(args[0], scope, here, 0) if args else [""]
            yield from (Refusal(shown, text) for text in sorted(set(texts)))


def _raises(node, scope, kinds):
    for child in ast.iter_child_nodes(node):
        inner = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        if isinstance(child, ast.Raise) and _is_refusal(child.exc, kinds):
            yield inner, child
        yield from _raises(child, inner, kinds)


def _is_refusal(node, kinds):
    return isinstance(node, ast.Call) and ast.unparse(node.func) in kinds


def _texts(node, scope, here, depth):
    """What an expression can be as text."""
    again = lambda inner: _texts(inner, scope, here, depth + 1)  # noqa: E731
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return _joined([again(part) for part in parts])
        case ast.FormattedValue(value=value, conversion=-1):
            return _filled(again(value))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined([again(left), again(right)])
        case ast.IfExp(body=body, orelse=other):
            return [*again(body), *again(other)]
        case ast.BoolOp(op=ast.Or(), values=[*values, last]):
            return [*(text for value in values for text in again(value) if text), *again(last)]
        case ast.Name(id=name):
            return _named(name, scope, here, depth)
        case ast.Call(func=ast.Name(id="suggestion"), args=args):
            return ["Did you mean {}?", *(again(args[2]) if len(args) > 2 else [""])]
        case ast.Call(func=ast.Name(id=name)):
            return _returned(name, here, depth)
    return [HOLE]


def _filled(texts):
    return [text if re.search(r"[a-z]{3}", text) or not text else HOLE for text in texts]


def _joined(parts):
    return ["".join(p) for p in itertools.islice(itertools.product(*parts), MOST)]


def _named(name, scope, here, depth):
    """The values that a name is given, in the function or the module."""
    if depth > DEPTH:
        return [HOLE]
    if scope is not None:
        local = [value for key, value in _assigned(scope.body) if key == name]
        if local:
            return [t for value in local for t in _texts(value, scope, here, depth + 1)]
        if name in {a.arg for a in ast.walk(scope.args) if isinstance(a, ast.arg)}:
            return [HOLE]
    if name in here.constants:
        return _texts(here.constants[name], None, here, depth + 1)
    if name in here.imported:
        other = _source(*here.imported[name])
        return _named(here.imported[name][1], None, other, depth + 1) if other else [HOLE]
    return [HOLE]


def _returned(name, here, depth):
    """What a function of ours returns."""
    function = here.functions.get(name)
    if function is None:
        other = _source(*here.imported[name]) if name in here.imported else None
        return _returned(here.imported[name][1], other, depth + 1) if other else [HOLE]
    values = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value]
    return [t for value in values for t in _texts(value, function, here, depth + 1)] or [HOLE]


def _assigned(body) -> Iterator[tuple[str, ast.expr]]:
    for statement in body:
        for node in ast.walk(statement):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    yield name, value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    yield name, value
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                    yield from (
                        (n.id, v)
                        for n, v in zip(names, values, strict=False)
                        if isinstance(n, ast.Name)
                    )


def _source(dotted: str, name: str) -> Module | None:
    base = ROOT.joinpath(*dotted.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return module(path)
    return None
