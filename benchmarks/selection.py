"""Selection under a token budget: how long it takes and how much of the best Q it keeps.

    python benchmarks/selection.py [--repeats 5] [--largest 65536]

One group: n rows, m = n / 4, a budget of 30, 60 and 90% of m mean rows, four kinds of reward.
Lengths are lognormal (0.7). Every method meets the same groups in turn, in one process:

select       `agentrl.select`, from lists to report
solver       its solver alone, on rows that are read
certified    the same without the search: token price, rounding, bound
drop         PODS for m rows, then the longest is dropped until the rest fits
skip         two-ended growth that passes over rows that do not fit
random       `select` with rule random
cheapest     shortest rows first

Many groups: 64 of 32 rows, success rates Beta(1/2, 1/2), failures 1.4 times longer, one budget
for all of 10, 25 and 50% of the tokens; against exact quotas of each group, of equal tokens (for
flat groups too, or not), and against PODS (m = 8) whose longest rows are dropped. Then by which
of equal rewards are kept: Q, and the length of the kept over that of average rows like them.

Times are medians in milliseconds; Q is a share of the upper bound, so that 1 is certainly best.
The aims were set beforehand for two cores. Last line: JSON.
(A script called select.py would hide the standard library's `select` from its neighbours.)
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentrl.selection import Report, batch, select
from agentrl.selection.alone import best, general
from agentrl.selection.bidder import bidder
from agentrl.selection.found import Found, Quota
from agentrl.selection.ladder import by_cost, ladder, scale_of
from agentrl.selection.objective import q
from agentrl.selection.pool import Pool, read
from agentrl.selection.ranking import nested

SIZES = (16, 64, 256, 1024, 4096, 16384, 65536)
SHARES = (0.3, 0.6, 0.9)
BATCH_SHARES = (0.1, 0.25, 0.5)
FAMILIES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "binary": lambda rng, n: (rng.random(n) < 0.5).astype(float),
    "3 levels": lambda rng, n: rng.integers(0, 3, n) / 2,
    "21 levels": lambda rng, n: rng.integers(0, 21, n) / 20,
    "gaussian": lambda rng, n: rng.normal(size=n),
}

WAYS: dict[str, dict[str, Any]] = {
    "cheapest": {"within": "cheapest"},
    "random": {"within": "random"},
    "ht": {"within": "ht"},
    "unbiased": {"unbiased": True},
    "unbiased, ht": {"unbiased": True, "within": "ht"},
}


@dataclass(frozen=True, slots=True)
class Rows:
    """What is chosen from."""

    rewards: list[float]
    tokens: list[int]
    groups: list[int]
    m: int
    budget: int


Method = Callable[[Rows], tuple[list[int], float | None]]
"""Kept rows, and the upper bound where the method has one."""


def selected(rows: Rows, **options: Any) -> tuple[list[int], float | None]:
    """The product."""
    done = report_of(rows, **options)
    return [row for group in done.groups.values() for row in group.kept], done.upper_bound


def report_of(rows: Rows, **options: Any) -> Report:
    """Its report."""
    asked = {"m": rows.m, "token_budget": rows.budget, "groups": rows.groups, **options}
    return select(rows.rewards, rows.tokens, **asked).report


def drop_longest(rows: Rows) -> tuple[list[int], float | None]:
    """PODS, then the longest goes until the rest fits."""
    kept = selected(rows, token_budget=None)[0]
    kept.sort(key=lambda row: -rows.tokens[row])
    spent = sum(rows.tokens[row] for row in kept)
    start = 0
    while spent > rows.budget:
        spent -= rows.tokens[kept[start]]
        start += 1
    return kept[start:], None


def skip_misfits(rows: Rows) -> tuple[list[int], float | None]:
    """Two-ended growth of one group over what still fits."""
    return _greedy(rows, nested(rows.rewards, range(len(rows.rewards))))


def cheapest_first(rows: Rows) -> tuple[list[int], float | None]:
    """Shortest first."""
    order = sorted(range(len(rows.rewards)), key=lambda row: rows.tokens[row])
    return _greedy(rows, iter(order))


def _greedy(rows: Rows, order: Iterator[int]) -> tuple[list[int], float | None]:
    kept, left = [], rows.budget
    for row in order:
        if rows.tokens[row] <= left and len(kept) < rows.m:
            kept.append(row)
            left -= rows.tokens[row]
    return kept, None


METHODS: dict[str, Method] = {
    "select": selected,
    "drop": drop_longest,
    "skip": skip_misfits,
    "random": lambda rows: (selected(rows, rule="random")[0], None),
    "cheapest": cheapest_first,
}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds and result."""
    start = time.perf_counter()
    result = work()
    return 1e3 * (time.perf_counter() - start), result


def solved(rows: Rows, solver: Callable[..., Found]) -> tuple[float, Found, float]:
    """A solver alone: milliseconds, what it found, and the scale of its Q."""
    (pool,), _ = read(rows.rewards, rows.tokens, None, None, 0)
    scale = scale_of([pool])

    def work() -> Found:
        return solver(ladder(pool, rows.budget, scale, by_cost), Quota(rows.m), rows.budget)

    spent, found = timed(work)
    return spent, found, scale**2


def one_group(rng: np.random.Generator, family: str, n: int, share: float) -> Rows:
    """A group and a budget."""
    rewards = FAMILIES[family](rng, n).tolist()
    tokens = np.maximum(1, np.round(300 * rng.lognormal(0, 0.7, n))).astype(int)
    budget = max(1, int(share * (n // 4) * tokens.mean()))
    return Rows(rewards, tokens.tolist(), [0] * n, n // 4, budget)


def measure_one(rows: Rows) -> dict[str, tuple[float, float, bool]]:
    """Method to milliseconds, share of the bound, and whether it is known to be best."""
    spent, found, unit = solved(rows, best)
    bound = found.bound * unit
    certain = found.bound <= found.worth * (1 + 1e-9)
    result = {"solver": (spent, _share(found.worth * unit, bound), certain)}
    spent, rough, unit = solved(rows, lambda *asked: general(*asked, 0))
    closed = rough.bound <= rough.worth * (1 + 1e-9)
    result["certified"] = (spent, _share(rough.worth, rough.bound), closed)
    for name, method in METHODS.items():
        spent, (kept, own) = timed(lambda method=method: method(rows))
        value = q([rows.rewards[row] for row in kept])
        result[name] = (spent, _share(value, bound), own is not None and value >= own * (1 - 1e-9))
    return result


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0


def single(repeats: int, largest: int) -> list[dict[str, Any]]:
    """All sizes and families."""
    table = []
    for n in (size for size in SIZES if size <= largest):
        few = repeats if n <= 4096 else 1
        for family in FAMILIES:
            rng = np.random.default_rng([n, list(FAMILIES).index(family)])
            measure_one(one_group(rng, family, n, 0.6))
            runs = [
                (share, measure_one(one_group(rng, family, n, share)))
                for _ in range(few)
                for share in SHARES
            ]
            table += [_row(n, family, name, runs) for name in runs[0][1]]
    return table


def _row(
    n: int, family: str, name: str, runs: Sequence[tuple[float, dict[str, Any]]]
) -> dict[str, Any]:
    cells = [run[name] for _, run in runs]
    by_share = {
        f"q at {share:.0%}": statistics.fmean(run[name][1] for at, run in runs if at == share)
        for share in SHARES
    }
    return {
        "n": n,
        "rewards": family,
        "method": name,
        "ms": statistics.median(cell[0] for cell in cells),
        "slowest": max(cell[0] for cell in cells),
        **by_share,
        "exact": statistics.fmean(cell[2] for cell in cells),
    }


# --- many groups


def many_groups(seed: int, family: str, share: float, m: int = 32) -> Rows:
    """64 groups of 32, with one budget."""
    rng = np.random.default_rng([seed, 64])
    rewards, tokens = [], []
    for _ in range(64):
        if family == "binary":
            own = (rng.random(32) < rng.beta(0.5, 0.5)).astype(float)
        else:
            own = FAMILIES[family](rng, 32)
        longer = np.where(own > np.median(own), 1.0, 1.4) if family != "binary" else 1.4 - 0.4 * own
        tokens += np.round(300 * rng.lognormal(0, 0.7, 32) * longer + 1).astype(int).tolist()
        rewards += own.tolist()
    groups = [row // 32 for row in range(64 * 32)]
    return Rows(rewards, tokens, groups, m, int(share * sum(tokens)))


def quotas(rows: Rows, *, to_flat: bool) -> float:
    """Q of exact choices where every group has an equal share of the tokens."""
    pools, _ = read(rows.rewards, rows.tokens, rows.groups, None, 0)
    active = [pool for pool in pools if not pool.flat]
    own = rows.budget // (len(pools) if to_flat else len(active))
    return sum(
        select(pool.rewards, pool.tokens, m=rows.m, token_budget=own).report.q_kept
        for pool in active
    )


def shared(rows: Rows) -> tuple[float, float, float, float]:
    """The solver alone: milliseconds, Q, the bound of one price, the final bound."""
    pools, _ = read(rows.rewards, rows.tokens, rows.groups, None, 0)
    active = [pool for pool in pools if not pool.flat]
    spent, found = timed(lambda: _share_out(active, rows))
    unit = scale_of(active) ** 2
    return spent, found.worth * unit, found.hull * unit, found.bound * unit


def _share_out(pools: Sequence[Pool], rows: Rows) -> batch.Shared:
    scale = scale_of(pools)
    offers = [ladder(pool, rows.budget, scale, by_cost) for pool in pools]
    return batch.share([bidder(one, Quota(rows.m), rows.budget) for one in offers], rows.budget)


def batches(repeats: int) -> list[dict[str, Any]]:
    """All families and budgets."""
    return [
        _batch_row(family, share, range(repeats)) for family in FAMILIES for share in BATCH_SHARES
    ]


def _batch_row(family: str, share: float, seeds: Sequence[int]) -> dict[str, Any]:
    rounds = []
    for seed in seeds:
        rows = many_groups(seed, family, share)
        spent, worth, hull, bound = shared(rows)
        whole, report = timed(lambda rows=rows: report_of(rows))
        eight = many_groups(seed, family, share, m=8)
        rounds.append(
            {
                "solver ms": spent,
                "select ms": whole,
                "q": worth,
                "hull gap": 1 - worth / hull,
                "gap": 1 - worth / bound,
                "quota": quotas(rows, to_flat=True),
                "quota, not to flat": quotas(rows, to_flat=False),
                "pods 8, drop": _value(eight, drop_longest(eight)[0]),
                "length": report.length_ratio,
            }
        )
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    worst = {"largest hull gap": max(one["hull gap"] for one in rounds)}
    return {"rewards": family, "share": share, **middle, **worst}


def _value(rows: Rows, kept: Sequence[int]) -> float:
    own: dict[int, list[float]] = {}
    for row in kept:
        own.setdefault(rows.groups[row], []).append(rows.rewards[row])
    return sum(q(rewards) for rewards in own.values())


def ways(repeats: int) -> list[dict[str, Any]]:
    """Which of equal rewards are kept: what it costs in Q, and how short the kept are."""
    table = []
    for name, options in WAYS.items():
        for share in BATCH_SHARES:
            rounds = []
            for seed in range(repeats):
                rows = many_groups(seed, "binary", share)
                spent, report = timed(lambda rows=rows, options=options: report_of(rows, **options))
                used = report.cost_kept / rows.budget
                parts = (spent, report.q_kept / report.upper_bound, used, report.length_ratio)
                rounds.append(parts)
            ms, value, used, length = (
                statistics.median(column) for column in zip(*rounds, strict=True)
            )
            row = {"way": name, "share": share, "select ms": ms, "q": value}
            table.append({**row, "budget used": used, "length": length})
    return table


# --- tables


def aims(one: Sequence[dict[str, Any]], many: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was aimed at, beside what was measured."""

    def ms(n: int, method: str, families: Sequence[str]) -> float:
        cells = [r["ms"] for r in one if (r["n"], r["method"]) == (n, method)
                 and r["rewards"] in families]  # fmt: skip
        return max(cells, default=float("nan"))

    rows = [r for r in many if r["rewards"] == "binary"]
    wide = ("21 levels", "gaussian")
    table = [
        ("binary n = 256, solver, ms", 0.2, ms(256, "solver", ["binary"]), "<"),
        ("binary n = 256, whole select, ms", 0.2, ms(256, "select", ["binary"]), "<"),
        ("binary n = 4096, solver, ms", 2, ms(4096, "solver", ["binary"]), "<"),
        ("binary n = 4096, whole select, ms", 2, ms(4096, "select", ["binary"]), "<"),
        ("general n = 64, exact, ms", 60, ms(64, "solver", wide), "<"),
        ("general n = 64, certified, ms", 10, ms(64, "certified", wide), "<"),
        ("64 groups of 32, solver, ms", 20, max(r["solver ms"] for r in rows), "<"),
        ("64 groups of 32, whole select, ms", 20, max(r["select ms"] for r in rows), "<"),
        ("64 groups of 32, gap to the hull", 0.005, max(r["largest hull gap"] for r in rows), "<"),
    ]
    table += [
        (f"Q over equal quotas at {r['share']:.0%}", aim, r["q"] / r["quota"], ">=")
        for r, aim in zip(rows, (1.30, 1.25, 1.15), strict=True)
    ]
    return [
        {
            "aim": name,
            "": sign,
            "aimed": aim,
            "measured": found,
            "held": bool(found < aim if sign == "<" else found >= aim),
        }
        for name, aim, found, sign in table
    ]


def show(title: str, table: Sequence[dict[str, Any]]) -> None:
    """A table for the terminal."""
    print(f"\n{title}")
    cells = [list(table[0]), *([_cell(value) for value in row.values()] for row in table)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}"
    return {True: "yes", False: "NO"}[value] if isinstance(value, bool) else str(value)


def machine() -> dict[str, Any]:
    """What it ran on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), ""
    )
    return {
        "machine": model or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="Selection under a token budget.")
    parser.add_argument("--repeats", type=int, default=5, help="groups of each kind and budget")
    parser.add_argument("--largest", type=int, default=65536, help="most rows of a group")
    args = parser.parse_args()
    where = machine()
    print(", ".join(f"{name} {value}" for name, value in where.items()))
    one, many = single(args.repeats, args.largest), batches(args.repeats)
    within, reached = ways(args.repeats), aims(one, many)
    show("one group", one)
    show("64 groups of 32 rows", many)
    show("64 groups of 32 rows, two rewards: which of equal rewards", within)
    show("aims", reached)
    tables = {"one": one, "many": many, "within": within, "aims": reached}
    print(json.dumps({**where, **vars(args), **tables}))


if __name__ == "__main__":
    main()
