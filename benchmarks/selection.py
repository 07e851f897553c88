"""Selection under a token budget: how long it takes and how much of the best Q it keeps.

    python benchmarks/selection.py [--repeats 5] [--largest 65536] [--quick]

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
The aims were set beforehand for two cores. Last line: JSON. --quick: one round, up to n = 256.
(A script called select.py would hide the standard library's `select` from its neighbours.)
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from peers import (
    FAMILIES,
    METHODS,
    Rows,
    drop_longest,
    many_groups,
    one_group,
    quotas,
    report_of,
    worth,
)
from tables import machine, show, timed

from agentrl.selection import batch
from agentrl.selection.alone import best, general
from agentrl.selection.bidder import bidder
from agentrl.selection.found import Found, Quota
from agentrl.selection.ladder import by_cost, ladder, scale_of
from agentrl.selection.pool import Pool, read

SIZES = (16, 64, 256, 1024, 4096, 16384, 65536)
QUICK = 256
SHARES = (0.3, 0.6, 0.9)
BATCH_SHARES = (0.1, 0.25, 0.5)
WAYS: dict[str, dict[str, Any]] = {
    "cheapest": {"within": "cheapest"},
    "random": {"within": "random"},
    "ht": {"within": "ht"},
    "unbiased": {"unbiased": True},
    "unbiased, ht": {"unbiased": True, "within": "ht"},
}
WIDE = ("21 levels", "gaussian")

Cell = tuple[float, float, bool]
"""Milliseconds, share of the bound, and whether it is known to be best."""


def single(repeats: int, largest: int) -> list[dict[str, Any]]:
    """One group: all sizes and families."""
    table = []
    for n in (size for size in SIZES if size <= largest):
        few = repeats if n <= 4096 else 1
        for place, family in enumerate(FAMILIES):
            rng = np.random.default_rng([n, place])
            measured(one_group(rng, family, n, 0.6))
            runs = [
                (share, measured(one_group(rng, family, n, share)))
                for _ in range(few)
                for share in SHARES
            ]
            table += [_row(n, family, name, runs) for name in runs[0][1]]
    return table


def measured(rows: Rows) -> dict[str, Cell]:
    """Every method on the same rows."""
    spent, found, unit = solved(rows, best)
    bound = found.bound * unit
    result = {"solver": (spent, _share(found.worth, found.bound), _closed(found))}
    spent, rough, _ = solved(rows, lambda *asked: general(*asked, 0))
    result["certified"] = (spent, _share(rough.worth, rough.bound), _closed(rough))
    for name, method in METHODS.items():
        spent, (kept, own) = timed(lambda method=method: method(rows))
        value = worth(rows, kept)
        certain = own is not None and value >= own * (1 - 1e-9)
        result[name] = (spent, _share(value, bound), certain)
    return result


def solved(rows: Rows, solver: Callable[..., Found]) -> tuple[float, Found, float]:
    """A solver alone: milliseconds, what it found, and the scale of its Q."""
    (pool,), _ = read(rows.rewards, rows.tokens, None, None, 0)
    scale = scale_of([pool])

    def work() -> Found:
        return solver(ladder(pool, rows.budget, scale, by_cost), Quota(rows.m), rows.budget)

    spent, found = timed(work)
    return spent, found, scale**2


def _closed(found: Found) -> bool:
    return bool(found.bound <= found.worth * (1 + 1e-9))


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0


def _row(
    n: int, family: str, name: str, runs: Sequence[tuple[float, dict[str, Cell]]]
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


def batches(repeats: int) -> list[dict[str, Any]]:
    """Many groups: all families and budgets."""
    return [_batch(family, share, repeats) for family in FAMILIES for share in BATCH_SHARES]


def _batch(family: str, share: float, repeats: int) -> dict[str, Any]:
    rounds = []
    for seed in range(repeats):
        rows, eight = many_groups(seed, family, share), many_groups(seed, family, share, m=8)
        spent, found, unit = shared(rows)
        whole, report = timed(lambda rows=rows: report_of(rows))
        rounds.append(
            {
                "solver ms": spent,
                "select ms": whole,
                "q": found.worth * unit,
                "hull gap": 1 - found.worth / found.hull,
                "gap": 1 - found.worth / found.bound,
                "quota": quotas(rows, to_flat=True),
                "quota, not to flat": quotas(rows, to_flat=False),
                "pods 8, drop": worth(eight, drop_longest(eight)[0]),
                "length": report.length_ratio,
            }
        )
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    worst = {"largest hull gap": max(one["hull gap"] for one in rounds)}
    return {"rewards": family, "share": share, **middle, **worst}


def shared(rows: Rows) -> tuple[float, batch.Shared, float]:
    """The solver of many groups alone: milliseconds, what it found, the scale of its Q."""
    pools, _ = read(rows.rewards, rows.tokens, rows.groups, None, 0)
    active = [pool for pool in pools if not pool.flat]
    scale = scale_of(active)
    spent, found = timed(lambda: _share_out(active, rows, scale))
    return spent, found, scale**2


def _share_out(pools: Sequence[Pool], rows: Rows, scale: float) -> batch.Shared:
    offers = [ladder(pool, rows.budget, scale, by_cost) for pool in pools]
    return batch.share([bidder(one, Quota(rows.m), rows.budget) for one in offers], rows.budget)


def ways(repeats: int) -> list[dict[str, Any]]:
    """Which of equal rewards are kept: what it costs in Q, and how short the kept are."""
    return [
        {"way": name, "share": share, **_way(options, share, repeats)}
        for name, options in WAYS.items()
        for share in BATCH_SHARES
    ]


def _way(options: dict[str, Any], share: float, repeats: int) -> dict[str, float]:
    rounds = []
    for seed in range(repeats):
        rows = many_groups(seed, "binary", share)
        spent, report = timed(lambda rows=rows: report_of(rows, **options))
        used = report.cost_kept / rows.budget
        rounds.append((spent, report.q_kept / report.upper_bound, used, report.length_ratio))
    middle = [statistics.median(column) for column in zip(*rounds, strict=True)]
    return dict(zip(("select ms", "q", "budget used", "length"), middle, strict=True))


def aims(one: Sequence[dict[str, Any]], many: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was aimed at, beside what was measured."""

    def ms(n: int, method: str, *families: str) -> float | None:
        own = [r for r in one if (r["n"], r["method"]) == (n, method)]
        return max((r["ms"] for r in own if r["rewards"] in families), default=None)

    rows = [r for r in many if r["rewards"] == "binary"]
    table = [
        ("binary n = 256, solver, ms", "<", 0.2, ms(256, "solver", "binary")),
        ("binary n = 256, whole select, ms", "<", 0.2, ms(256, "select", "binary")),
        ("binary n = 4096, solver, ms", "<", 2, ms(4096, "solver", "binary")),
        ("binary n = 4096, whole select, ms", "<", 2, ms(4096, "select", "binary")),
        ("general n = 64, exact, ms", "<", 60, ms(64, "solver", *WIDE)),
        ("general n = 64, certified, ms", "<", 10, ms(64, "certified", *WIDE)),
        ("64 groups of 32, solver, ms", "<", 20, max(r["solver ms"] for r in rows)),
        ("64 groups of 32, whole select, ms", "<", 20, max(r["select ms"] for r in rows)),
        ("64 groups of 32, gap to the hull", "<", 0.005, max(r["largest hull gap"] for r in rows)),
    ]
    table += [
        (f"Q over equal quotas at {r['share']:.0%}", ">=", aim, r["q"] / r["quota"])
        for r, aim in zip(rows, (1.30, 1.25, 1.15), strict=True)
    ]
    return [
        {"aim": name, "": sign, "aimed": aim, "measured": found, "held": _held(sign, found, aim)}
        for name, sign, aim, found in table
    ]


def _held(sign: str, found: float | None, aim: float) -> bool | None:
    """None where it was not measured."""
    if found is None:
        return None
    return bool(found < aim if sign == "<" else found >= aim)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="Selection under a token budget.")
    parser.add_argument("--repeats", type=int, default=5, help="groups of each kind and budget")
    parser.add_argument("--largest", type=int, default=65536, help="most rows of a group")
    parser.add_argument("--quick", action="store_true", help="one round of groups up to 256")
    args = parser.parse_args()
    if args.quick:
        args.repeats, args.largest = 1, min(args.largest, QUICK)
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
