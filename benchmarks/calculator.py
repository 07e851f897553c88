"""The calculator beside sympy, asteval and simpleeval: speed, hostile texts, meaning.

    python benchmarks/calculator.py [--seconds 3] [--memory 1024] [--repeats 7] [--quick]

agentrl             `agentrl_tools.calculator.evaluate`
sympy               `parse_expr` with its standard transformations, and ^ for powers
sympy, no builtins  the same with sympy's names alone and `__builtins__` emptied
asteval             `Interpreter`, which knows numpy's functions
simpleeval          `simple_eval` with the functions and constants of `math`

Ordinary    microseconds an expression, the fastest of a few rounds in turn; whether it is right.
Hostile     each text in a process of its own, forked with everything imported, ended after so
            many seconds of processor time (or four times as long) and kept to so many MiB more.
            executed: the text made the library make a file. hung: it was ended. memory: it
            ran out. crashed: the process died. An error is told by its kind. What is printed is
            part of it: a value that cannot be written helps nobody.
Meaning     right: the number, exactly, or to 12 digits where it is irrational. wrong: another
            number, or one where there is none. refused: no number where there is one. Meant is
            what people write; to asteval and simpleeval ^ is exclusive or, as in Python.

The tables name the texts themselves; `expressions.py` holds them. A library that is not
installed is left out, and the first lines say so. Last line: JSON. --quick: one second, every
eighth hostile text.
"""

from __future__ import annotations

import argparse
import builtins
import io
import json
import math
import multiprocessing
import os
import resource
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from expressions import CANARY, EXECUTION, ORDINARY, SEMANTICS, TOO_LARGE
from tables import machine, show

Calculator = Callable[[str], str]

WALL = 4
"""Seconds of wall clock for each second of processor time."""
FORK = multiprocessing.get_context("fork")


def ours() -> Calculator:
    """The calculator of this project."""
    from agentrl_tools.calculator import evaluate

    return evaluate


def sympy_parser(**more: Any) -> Calculator:
    """Sympy's parser, as calculators use it."""
    parser = import_module("sympy.parsing.sympy_parser")
    rules = (*parser.standard_transformations, parser.convert_xor)

    def calculate(text: str) -> str:
        value = parser.parse_expr(text, transformations=rules, **more)
        exact = getattr(value, "is_Rational", False) or not getattr(value, "is_number", False)
        return str(value if exact else value.evalf())

    return calculate


def bare_sympy() -> Calculator:
    """The same where no builtin function is to be had."""
    names: dict[str, Any] = {}
    exec("from sympy import *", names)
    return sympy_parser(global_dict={**names, "__builtins__": {}})


def asteval() -> Calculator:
    """A fresh interpreter for each text, so that nothing stays behind."""
    module = import_module("asteval")

    def calculate(text: str) -> str:
        interpreter = module.Interpreter(err_writer=io.StringIO())
        return str(interpreter(text, raise_errors=True))

    return calculate


def simpleeval() -> Calculator:
    """Operators of its own; functions of `math`, since it has none."""
    module = import_module("simpleeval")
    known = {name: value for name, value in vars(math).items() if name[0] != "_"}
    functions = {name: value for name, value in known.items() if callable(value)}
    functions |= {"abs": abs, "round": round, "max": max, "min": min}
    names = {"pi": math.pi, "e": math.e, "True": True, "False": False, "None": None}
    return lambda text: str(module.simple_eval(text, functions=functions, names=names))


LIBRARIES: Mapping[str, tuple[str, Callable[[], Calculator]]] = {
    "agentrl": ("agentrl", ours),
    "sympy": ("sympy", sympy_parser),
    "sympy, no builtins": ("sympy", bare_sympy),
    "asteval": ("asteval", asteval),
    "simpleeval": ("simpleeval", simpleeval),
}
DISTRIBUTIONS = {"agentrl": "agentrl-pods"}


def ordinary(libraries: Mapping[str, Calculator], repeats: int) -> list[dict[str, Any]]:
    """Speed on expressions that everyone can read."""
    table = []
    for text in ORDINARY:
        spent = dict.fromkeys(libraries, float("inf"))
        for _ in range(repeats):
            for name, calculate in libraries.items():
                spent[name] = min(spent[name], _microseconds(calculate, text))
        table.append({"expression": _short(text), **spent})
    middle = {
        name: math.exp(sum(math.log(row[name]) for row in table) / len(table)) for name in libraries
    }
    return [*table, {"expression": "geometric mean", **middle}]


def _microseconds(calculate: Calculator, text: str, calls: int = 5) -> float:
    begun = time.perf_counter()
    for _ in range(calls):
        calculate(text)
    return 1e6 * (time.perf_counter() - begun) / calls


def hostile(
    libraries: Mapping[str, Calculator], texts: Sequence[str], seconds: int, memory: int
) -> list[dict[str, Any]]:
    """How each library takes each text."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            {"text": _short(text)}
            | {name: caged(one, text, folder, seconds, memory) for name, one in libraries.items()}
            for text in texts
        ]


def caged(calculate: Calculator, text: str, folder: str, seconds: int, memory: int) -> str:
    """What comes of one text, in a process of its own."""
    canary = Path(folder) / "canary"
    canary.unlink(missing_ok=True)
    receiver, sender = FORK.Pipe(duplex=False)
    cage = (sender, calculate, text.replace(CANARY, str(canary)), folder, seconds, memory)
    process = FORK.Process(target=_inside, args=cage)
    process.start()
    sender.close()
    said = _heard(receiver, WALL * seconds)
    process.kill()
    process.join()
    if canary.exists():
        return "executed"
    if said is not None:
        return said
    return "crashed" if process.exitcode in _CRASHES else "hung"


_CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)


def _heard(receiver: Connection, seconds: int) -> str | None:
    """What the process says before its time is up, or before it dies."""
    try:
        return str(receiver.recv()) if receiver.poll(seconds) else None
    except EOFError:
        return None


def _inside(
    sender: Connection, calculate: Calculator, text: str, folder: str, seconds: int, memory: int
) -> None:
    os.chdir(folder)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + memory * 2**20,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
    with open(os.devnull, "r+b") as nothing:
        for descriptor in (0, 1, 2):
            os.dup2(nothing.fileno(), descriptor)
    sender.send(_said(calculate, text))


def _said(calculate: Calculator, text: str) -> str:
    try:
        calculate(text)
    except MemoryError:
        return "memory"
    except BaseException as error:
        return type(error).__name__
    return "value"


def meaning(libraries: Mapping[str, Calculator]) -> list[dict[str, Any]]:
    """What each library makes of the fine points."""
    return [
        {"text": _short(text), "means": value or "nothing"}
        | {name: judged(calculate, text, value) for name, calculate in libraries.items()}
        for text, value in SEMANTICS
    ]


def judged(calculate: Calculator, text: str, value: str | None) -> str:
    """Right, or in what way not."""
    found = _number(_answer(calculate, text))
    if value is None or found is None:
        return "right" if value is None and found is None else "refused" if value else "wrong"
    due = Fraction(value)
    near = value == IRRATIONAL and abs(found / due - 1) < Fraction(1, 10**12)
    return "right" if found == due or near else "wrong"


IRRATIONAL = "6.28318530717959"


def _answer(calculate: Calculator, text: str) -> str:
    try:
        return calculate(text)
    except BaseException as error:
        return type(error).__name__


def _number(text: str) -> Fraction | None:
    try:
        return Fraction(text.removeprefix("~"))
    except (ValueError, ZeroDivisionError):
        return None


def tally(kind: str, table: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """How often each library did what."""
    counts = {name: Counter(_class(row[name]) for row in table) for name in names}
    return [
        {"texts": kind, "library": name, "of": len(table)}
        | {outcome: counts[name][outcome] for outcome in OUTCOMES}
        for name in names
    ]


OUTCOMES = (
    "executed", "hung", "memory", "crashed", "wrong", "value", "own error", "Python's error",
    "right", "refused",
)  # fmt: skip


def _class(outcome: str) -> str:
    if outcome in OUTCOMES:
        return outcome
    return "Python's error" if hasattr(builtins, outcome) else "own error"


def _short(text: str) -> str:
    shown = text.encode("ascii", "backslashreplace").decode().replace("\n", "\\n")
    shown = shown.replace("\0", "\\0")
    return shown if len(shown) <= 60 else f"{shown[:45]}... ({len(text)})"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="The calculator beside others.")
    parser.add_argument("--seconds", type=int, default=3, help="processor time of a hostile text")
    parser.add_argument("--memory", type=int, default=1024, help="MiB a hostile text may take")
    parser.add_argument("--repeats", type=int, default=7, help="rounds of the ordinary ones")
    parser.add_argument("--quick", action="store_true", help="one second, every eighth text")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.repeats = 1, 2
    warnings.simplefilter("ignore")  # numpy's about log(0), through asteval
    where = machine()
    print(", ".join(f"{name} {value}" for name, value in where.items()))
    libraries, versions = installed()
    every = 8 if args.quick else 1
    fast = ordinary(libraries, args.repeats)
    tries = hostile(libraries, EXECUTION[::every], args.seconds, args.memory)
    sizes = hostile(libraries, TOO_LARGE[::every], args.seconds, args.memory)
    points = meaning(libraries)
    names = list(libraries)
    summary = [
        *tally("to run code", tries, names),
        *tally("to hang", sizes, names),
        *tally("fine points", points, names),
    ]
    show("ordinary expressions, microseconds", fast)
    show("tries to run code", tries)
    show("tries to hang or to fill memory", sizes)
    show("fine points", points)
    show("how often", summary)
    tables = {
        "ordinary": fast, "execution": tries, "size": sizes, "meaning": points, "summary": summary,
    }  # fmt: skip
    print(json.dumps({**where, "versions": versions, **vars(args), **tables}))


def installed() -> tuple[dict[str, Calculator], dict[str, str]]:
    """The libraries that are here, their versions, and a line for each that is not here."""
    found, versions = {}, {}
    for name, (package, make) in LIBRARIES.items():
        if find_spec(package) is None:
            print(f"{name}: left out, {package} is not installed")
            continue
        found[name] = make()
        versions[package] = version(DISTRIBUTIONS.get(package, package))
    print(", ".join(f"{package} {version}" for package, version in versions.items()))
    return found, versions


if __name__ == "__main__":
    main()
