"""What running code costs: processor time of a call, with all that is done for it.

    python benchmarks/sandbox.py [--rounds 5] [--calls 40] [--quick]

Interleaved in one process, a batch of each arm in every round:

subprocess     `python -I -c`, as most tools run code: no isolation at all
level 1, 2, 3  a call of `Sandbox` at each level that this machine has
cell           a cell of a session, at the strictest level
cold sympy     `python -c` that imports sympy and factors a polynomial
warm sympy     the same in a sandbox that has sympy preloaded
hot sympy      the same in a cell of a session that has imported it

CPU-ms a call are those of this process, of children that it waited for, of the fork server and of
that server's children, the median over rounds; wall-ms are the median too, and noisy where others
are at work. Last line: JSON. --quick: two rounds of few calls.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tables import machine, show

from agentrl.errors import SandboxUnavailable
from agentrl.sandbox import Limits, Result, Sandbox

SMALL = "print(sum(n * n for n in range(100)))"
FACTOR = """
from sympy import factor, symbols
x = symbols("x")
print(factor(x**6 - 7*x**4 + 14*x**2 - 8))
"""
LIMITS = Limits(cpu=30.0, wall=120.0)
AIMS = {"a call": 6.0, "a session cell": 0.3, "cold over warm sympy": 6.0}


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of running code."""

    name: str
    call: Callable[[], float]
    """Runs it; seconds of processor time that are seen nowhere else."""
    server: int = 0
    """Pid of the fork server."""


def arms(stack: ExitStack) -> list[Arm]:
    """All that work here."""
    made = [Arm("subprocess", lambda: _cold(SMALL, "-I"))]
    for level in (1, 2, 3):
        sandbox = _sandbox(stack, level=level, unsafe=level < 2)
        if sandbox is not None:
            made.append(Arm(f"level {level}", _calls(sandbox.run, SMALL), _server(sandbox)))
    warm = _sandbox(stack, packages=("sympy",), preload=("sympy",))
    plain = _sandbox(stack)
    if plain is not None:
        made.append(Arm("cell", _calls(_session(stack, plain), SMALL), _server(plain)))
    made.append(Arm("cold sympy", lambda: _cold(FACTOR)))
    if warm is not None:
        server = _server(warm)
        made.append(Arm("warm sympy", _calls(warm.run, FACTOR), server))
        made.append(Arm("hot sympy", _calls(_session(stack, warm), FACTOR), server))
    return made


def _sandbox(stack: ExitStack, **options: Any) -> Sandbox | None:
    sandbox = stack.enter_context(Sandbox(**{"packages": (), "limits": LIMITS, **options}))
    try:
        return sandbox if sandbox.level else None
    except SandboxUnavailable:
        return None


def _session(stack: ExitStack, sandbox: Sandbox) -> Callable[[str], Result]:
    return stack.enter_context(sandbox.session()).run


def _server(sandbox: Sandbox) -> int:
    running = sandbox._local._server
    return 0 if running is None else running.pid


def _calls(run: Callable[[str], Result], code: str) -> Callable[[], float]:
    def call() -> float:
        result = run(code)
        if result.status != "ok":
            raise RuntimeError(f"{result.status}: {result.problem or result.stdout}")
        return result.cpu

    return call


def _cold(code: str, *options: str) -> float:
    subprocess.run([sys.executable, *options, "-c", code], check=True, capture_output=True)
    return 0.0


def measured(arm: Arm, calls: int) -> tuple[float, float]:
    """CPU-ms and wall-ms a call."""
    used, begun, inside = _used(arm.server), time.perf_counter(), 0.0
    for _ in range(calls):
        inside += arm.call()
    spent = _used(arm.server) - used + inside
    return 1e3 * spent / calls, 1e3 * (time.perf_counter() - begun) / calls


def _used(server: int) -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(one.ru_utime + one.ru_stime for one in both)
    # The clock of a process by its number, as clock_getcpuclockid(3) makes it.
    return own + (time.clock_gettime((~server << 3) | 2) if server else 0.0)


def table(made: list[Arm], rounds: int, calls: int) -> list[dict[str, Any]]:
    """Every arm in every round."""
    runs: dict[str, list[tuple[float, float]]] = {arm.name: [] for arm in made}
    for arm in made:
        measured(arm, 1)
    for _ in range(rounds):
        for arm in made:
            runs[arm.name].append(
                measured(arm, max(2, calls // 8) if "cold" in arm.name else calls)
            )
    plain = statistics.median(cpu for cpu, _ in runs["subprocess"])
    rows = []
    for name, cells in runs.items():
        cpu = statistics.median(cell[0] for cell in cells)
        rows.append(
            {
                "arm": name,
                "cpu ms": cpu,
                "least": min(cell[0] for cell in cells),
                "wall ms": statistics.median(cell[1] for cell in cells),
                "of subprocess": cpu / plain,
            }
        )
    return rows


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was aimed at, beside what was measured."""
    cpu = {row["arm"]: row["cpu ms"] for row in rows}
    levels = [cpu[name] for name in ("level 2", "level 3") if name in cpu]
    warm = cpu.get("warm sympy")
    found = (max(levels, default=None), cpu.get("cell"), cpu["cold sympy"] / warm if warm else None)
    table = []
    for (name, aim), sign, value in zip(AIMS.items(), ("<=", "<=", ">="), found, strict=True):
        held = None if value is None else value <= aim if sign == "<=" else value >= aim
        table.append({"aim": name, "": sign, "aimed": aim, "measured": value, "held": held})
    return table


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="What running code costs.")
    parser.add_argument("--rounds", type=int, default=5, help="batches of each arm")
    parser.add_argument("--calls", type=int, default=40, help="calls in a batch")
    parser.add_argument("--quick", action="store_true", help="two rounds of few calls")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.calls = 2, 8
    where = machine()
    print(", ".join(f"{name} {value}" for name, value in where.items()))
    warnings.simplefilter("ignore")  # level 1 says what it is
    with ExitStack() as stack:
        rows = table(arms(stack), args.rounds, args.calls)
    reached = aims(rows)
    show("one call", rows)
    show("aims", reached)
    print(json.dumps({**where, **vars(args), "calls_table": rows, "aims": reached}))


if __name__ == "__main__":
    main()
