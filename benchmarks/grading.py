r"""Grading answers: right and wrong, time, and what is left to algebra; beside math-verify alone.

    python benchmarks/grading.py [--repeats 3]

The tables of the tests: `math_pairs` (the design was made with them) and `math_pairs_fresh`
(written when it was finished; some faults that they showed were mended afterwards). A row is a
gold answer, an answer, and whether they are equal.

agentrl        `math_equal`: exact comparison, then algebra in the sandbox
exact only     the same without algebra
math-verify    `parse` and `verify` in this process, gold and answer in \boxed{}, as it comes

Wrong is whatever is not what the table says: false yes, false no, and undecided. Times are
milliseconds of processor; of exact comparison in this process, nothing cached, the fastest of a
few calls; of algebra in the sandbox's child. Last line: JSON.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from math_verify import parse, verify
from tables import machine, show

from agentrl.errors import SandboxUnavailable
from agentrl.graders import Policy, Runner, Verdict, final_answer, math_equal
from agentrl.graders.structure import read
from agentrl.graders.symbolic import shared_sandbox
from agentrl.sandbox.result import Limits, Result

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
TABLES = ("math_pairs", "math_pairs_fresh")
NOT_FOUND = Verdict(False, "no answer", 0.0)

Row = dict[str, Any]


@dataclass
class Counting:
    """A runner that keeps how long each call took."""

    runner: Runner
    results: list[Result] = field(default_factory=list)

    def run(self, code: str, *, limits: Limits | None = None) -> Result:
        """Run it, and remember."""
        self.results.append(self.runner.run(code, limits=limits))
        return self.results[-1]


def measured(rows: Sequence[Row], repeats: int, runner: Counting | None) -> list[Row]:
    """Every row's verdict and time."""
    return [_measured(row, repeats, runner) for row in rows]


def _measured(row: Row, repeats: int, runner: Counting | None) -> Row:
    policy = Policy(algebra=runner is not None)

    def grade() -> Verdict:
        read.cache_clear()
        answer = final_answer(row["answer"]) if row["whole_response"] else row["answer"]
        if answer is None:
            return NOT_FOUND
        return math_equal(row["gold"], answer, policy=policy, runner=runner, timeout=10.0)

    verdict, spent = _fastest(grade, 1)
    if verdict.tier == 1:
        verdict, spent = _fastest(grade, repeats)
    return {"correct": verdict.correct, "tier": verdict.tier, "ms": spent}


def alone(rows: Sequence[Row]) -> list[Row]:
    """What math-verify makes of the same rows."""

    def judged(row: Row) -> Row:
        said = row["answer"] if row["whole_response"] else f"So it is $\\boxed{{{row['answer']}}}$."
        correct, spent = _fastest(
            lambda: bool(verify(parse(f"$\\boxed{{{row['gold']}}}$"), parse(said))), 1
        )
        return {"correct": correct, "tier": 2, "ms": spent}

    return [judged(row) for row in rows]


def _fastest(work: Callable[[], Any], calls: int) -> tuple[Any, float]:
    result, best = None, float("inf")
    for _ in range(calls):
        begin = time.process_time()
        result = work()
        best = min(best, 1e3 * (time.process_time() - begin))
    return result, best


def summary(table: str, name: str, rows: Sequence[Row], verdicts: Sequence[Row]) -> Row:
    """One line of the table."""
    pairs = [
        (row["equal"], verdict["correct"]) for row, verdict in zip(rows, verdicts, strict=True)
    ]
    exact = [v["ms"] for v in verdicts if v["tier"] == 1 and v["correct"] is not None]
    times = [v["ms"] for v in verdicts]
    return {
        "pairs": table,
        "grader": name,
        "rows": len(rows),
        "wrong": sum(equal is not said for equal, said in pairs),
        "false yes": sum(said is True and not equal for equal, said in pairs),
        "false no": sum(said is False and equal for equal, said in pairs),
        "undecided": sum(said is None for _, said in pairs),
        "decided exactly": len(exact) / len(rows),
        "median ms": statistics.median(exact or times),
        "slowest ms": max(exact or times),
    }


def main() -> None:
    """Measure, print, and end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    logging.disable()
    runner = _runner()
    table = []
    for name in TABLES:
        lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        if runner is not None:
            table.append(summary(name, "agentrl", rows, measured(rows, 1, runner)))
        table.append(summary(name, "exact only", rows, measured(rows, repeats, None)))
        alone(rows[:3])
        table.append(summary(name, "math-verify", rows, alone(rows)))
    show("right and wrong, and milliseconds of processor", table)
    algebra = [1e3 * result.cpu for result in runner.results] if runner is not None else []
    spent = {
        "calls": len(algebra),
        "median ms": statistics.median(algebra) if algebra else None,
        "slowest ms": max(algebra, default=None),
    }
    show("algebra in the sandbox", [spent])
    print(json.dumps({"machine": machine(), "table": table, "algebra": spent}))


def _runner() -> Counting | None:
    try:
        sandbox = shared_sandbox()
        sandbox.run("pass")
    except SandboxUnavailable as error:
        print(f"without algebra: {error}")
        return None
    return Counting(sandbox)


if __name__ == "__main__":
    main()
