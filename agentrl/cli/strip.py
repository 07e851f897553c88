"""A selection as a person reads it: bars, marks, and what the numbers mean.

In    a Selection, the rows it chose from, what was asked
Out   text of at most WIDTH columns, or of fewer where a terminal has fewer
Not   JSON (select.py), nor a choice
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from agentrl.cli.asking import flag
from agentrl.cli.rows import Rows
from agentrl.glyphs import SPARKS
from agentrl.selection import GroupReport, Report, Selection

WIDTH = 100
COLUMNS = 64
"""Groups up to this size have a bar for each row."""
SHORT = 16
"""Groups up to this size are shown with their numbers too."""
LABEL = 24
BESIDE = 36
"""Columns for what stands before and behind the bars."""
BARS = SPARKS


@dataclass(frozen=True, slots=True)
class Shown:
    """A selection and what it is shown with."""

    found: Selection
    rows: Rows
    costs: Sequence[int]
    """What each row counts against a budget."""
    unit: str = "tokens"
    """What costs are called."""
    budget: int | None = None
    flags: Sequence[str] = ()
    """Flags that asked for something else than the run did."""
    title: str = ""
    """The step of the run that is explained."""
    width: int = WIDTH


@dataclass(frozen=True, slots=True)
class Recorded:
    """The choice that a run made, beside the one that is explained."""

    kept: tuple[int, ...]
    """Rows that the run trained on."""
    only_here: tuple[int, ...]
    only_there: tuple[int, ...]

    @property
    def same(self) -> bool:
        """Whether it is the same choice."""
        return not (self.only_here or self.only_there)


def recorded(found: Selection, rows: Rows) -> Recorded | None:
    """What the run kept; None where no run is explained."""
    if not rows.kept:
        return None
    here, there = set(found.indices), {row for row, kept in enumerate(rows.kept) if kept}
    return Recorded(tuple(sorted(there)), tuple(sorted(here - there)), tuple(sorted(there - here)))


def strip(shown: Shown) -> str:
    """Each group's rewards as bars in their order, the kept ones marked, over their costs."""
    report = shown.found.report
    lines = [shown.title] if shown.title else []
    lines += [line for label in report.groups for line in _group(shown, label)]
    lines += _footer(shown)
    width = shown.width
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in lines)


def reasons(found: Selection, rows: Rows) -> dict[int, str]:
    """Why rows are out, in the words of whoever knows best."""
    return {row: rows.reasons.get(row, why) for row, why in found.report.excluded.items()}


def comparison(
    found: Mapping[str, Selection], left_out: Mapping[str, Sequence[str]], width: int = WIDTH
) -> str:
    """Every rule on the same rows, best Q first."""
    lines = [f"{'rule':<14}{'Q':>12}{'bound':>12}{'gap':>8}{'kept':>8}{'tokens':>12}  method"]
    for rule, one in sorted(found.items(), key=lambda item: -item[1].report.q_kept):
        r = one.report
        star = "*" if left_out[rule] else ""
        lines.append(
            f"{rule + star:<14}{r.q_kept:>12.6g}{r.upper_bound:>12.6g}{r.gap:>8.1%}"
            f"{r.kept:>8}{r.tokens_kept:>12}  {r.method}"
        )
    names = dict.fromkeys(flag(name) for out in left_out.values() for name in out)
    if names:
        lines += _wrapped(f"* without {', '.join(names)}: these rules have none", width)
    return "\n".join(line[:width] for line in lines)


def _group(shown: Shown, label: Any) -> Iterator[str]:
    report = shown.found.report
    group = report.groups[label]
    spread = f"spread {group.spread_all:.4g} -> {group.spread_kept:.4g}"
    why = group.dropped or f"{spread} · tokens {group.tokens_kept} of {group.tokens_all}"
    yield f"group {_label(label)}: kept {len(group.kept)} of {group.of} · {why}"
    if group.note:
        yield from _wrapped(f"note: {group.note}", shown.width, "  ")
    if not group.flat:
        own = [i for i, other in enumerate(shown.rows.groups) if other == label]
        usable = [i for i in own if i not in report.excluded]
        usable.sort(key=lambda row: (shown.rows.reward(row), shown.costs[row], row))
        yield from _bars_of(shown, usable, group)
        yield from _numbers(shown, usable, group)


def _bars_of(shown: Shown, ranked: Sequence[int], group: GroupReport) -> Iterator[str]:
    """A bar for each row, or for a few rows together where they are many."""
    rewards = [shown.rows.reward(row) for row in ranked]
    costs = [shown.costs[row] for row in ranked]
    size = math.ceil(len(ranked) / min(COLUMNS, shown.width - BESIDE))
    bins = [slice(start, start + size) for start in range(0, len(ranked), size)]
    low, high, most = rewards[0], rewards[-1], max(costs)
    levels = [_bar(fmean(rewards[one]) - low, high - low) for one in bins]
    yield _line("reward", "".join(levels), f"{_number(low)} to {_number(high)}")
    yield _line("kept", _marks(ranked, bins, set(group.kept)))
    there = {row for row, kept in enumerate(shown.rows.kept) if kept}
    if there and there & set(ranked) != set(group.kept):
        yield _line("in run", _marks(ranked, bins, there))
    if min(costs) < most:
        levels = [_bar(fmean(costs[one]), most) for one in bins]
        yield _line(shown.unit, "".join(levels), f"{_number(min(costs))} to {_number(most)}")
    if size > 1:
        yield f"  a column is {size} rows: ^ all of them are kept, + some"


def _marks(ranked: Sequence[int], bins: Sequence[slice], kept: set[int]) -> str:
    counts = [[row in kept for row in ranked[one]] for one in bins]
    return "".join("^" if all(some) else "+" if any(some) else " " for some in counts)


def _numbers(shown: Shown, ranked: Sequence[int], group: GroupReport) -> Iterator[str]:
    """Row, reward and cost in columns, where they have room."""
    kept = set(group.kept)
    rewards = [_number(shown.rows.reward(row)) for row in ranked]
    table = {
        "row": [str(row) for row in ranked],
        "reward": [f"[{r}]" if i in kept else r for r, i in zip(rewards, ranked, strict=True)],
        shown.unit: [_number(shown.costs[row]) for row in ranked],
    }
    if len({shown.costs[row] for row in ranked}) == 1:
        del table[shown.unit]
    if kept and _trained(shown, ranked) == kept:
        table["adv"] = [_signed(shown.rows.advantages[row]) for row in ranked]
    if len(ranked) > SHORT:
        return
    if not _fits(table, shown.width):
        table.pop("adv", None)
    if _fits(table, shown.width):
        width = _cell(table)
        for name, cells in table.items():
            yield _line(name, "".join(cell.rjust(width) for cell in cells))


def _fits(table: Mapping[str, Sequence[str]], width: int) -> bool:
    return 10 + _cell(table) * len(table["row"]) <= width


def _cell(table: Mapping[str, Sequence[str]]) -> int:
    """Columns of the widest cell and a space."""
    return max(len(cell) for cells in table.values() for cell in cells) + 1


def _trained(shown: Shown, ranked: Sequence[int]) -> set[int]:
    """Rows that the run trained on, with an advantage each."""
    known = {row for row, value in enumerate(shown.rows.advantages) if value is not None}
    return {row for row in ranked if row in known and shown.rows.kept[row]}


def _signed(advantage: float | None) -> str:
    return "" if advantage is None else f"{advantage:+.2f}"


def _footer(shown: Shown) -> Iterator[str]:
    found, report = shown.found, shown.found.report
    out: dict[str, list[int]] = {}
    for row, why in reasons(found, shown.rows).items():
        out.setdefault(why, []).append(row)
    for why, some in out.items():
        yield _listing("out:", some, f": {why}", shown.width)
    yield _listing("kept rows", found.indices, f", of {report.of}", shown.width)
    for text in _facts(shown, report):
        yield from _wrapped(text, shown.width)


def _facts(shown: Shown, report: Report) -> Iterator[str]:
    bound = f" (at most {report.upper_bound:.6g}: gap {report.gap:.2%})" if report.gap > 0 else ""
    spent = f"tokens {report.tokens_kept} of {report.tokens_all}"
    if shown.budget is not None:
        spent += f" · {report.cost_kept} of a budget of {shown.budget}"
    elif report.cost_kept != report.tokens_kept:
        spent += f" · they count {report.cost_kept}"
    yield f"Q {report.q_kept:.6g} of {report.q_all:.6g}{bound}"
    yield f"{spent} · {report.rule}: {report.method}"
    if report.price > 0:
        yield _price(shown, report)
    weighted = set(shown.found.weights) - {1.0}
    if abs(report.length_ratio - 1) >= 0.005:
        short = report.shorter and not weighted
        warned = " Short ones are rewarded: --within random or ht avoids it." * short
        yield (
            f"length ratio {report.length_ratio:.2f}: tokens of the kept rows over those of "
            f"average rows of their groups and rewards.{warned}"
        )
    if weighted:
        weights = shown.found.weights
        yield f"weights {min(weights):.4g} to {max(weights):.4g} undo the chances of the draw"
    ran = recorded(shown.found, shown.rows)
    if ran is not None:
        yield _beside(ran, shown.flags)


def _price(shown: Shown, report: Report) -> str:
    middle = median(c for row, c in enumerate(shown.costs) if row not in report.excluded)
    far = math.sqrt(report.price * middle)
    tokens = "tokens" if shown.unit == "tokens" else "effective tokens"
    return (
        f"price {report.price:.4g} reward² per token: a row is worth its {tokens} where "
        f"(reward - mean)² is above price x tokens; at {middle:g} {tokens}, farther than {far:.3g}"
    )


def _beside(ran: Recorded, flags: Sequence[str]) -> str:
    if ran.same:
        return "the run kept the same rows"
    asked = f"here {' '.join(flags)}" if flags else "by the same settings: another version?"
    return (
        f"the run kept other rows ({asked}): {len(ran.only_there)} only there, "
        f"{len(ran.only_here)} only here"
    )


def _label(label: object) -> str:
    text = "".join(c if c.isprintable() else "?" for c in str(label))
    return text if len(text) <= LABEL else f"{text[: LABEL // 2]}…"


def _bar(part: float, whole: float) -> str:
    """A zero has the lowest bar."""
    return BARS[round((len(BARS) - 1) * part / whole)] if whole > 0 else BARS[0]


def _number(value: float) -> str:
    return f"{value}" if isinstance(value, int) and abs(value) < 10**9 else f"{value:.4g}"


def _line(name: str, text: str, behind: str = "") -> str:
    return f"  {name:<7} {text}{'  ' * bool(behind)}{behind}".rstrip()


def _listing(before: str, rows: Sequence[int], behind: str, width: int) -> str:
    """Rows on one line; the last ones go where they have no room."""
    text, room = " ".join(map(str, rows)) or "none", width - len(before) - len(behind) - 1
    if len(text) > room:
        more = f" … ({len(rows)} in all)"
        text = text[: room - len(more)].rpartition(" ")[0] + more
    return f"{before} {text}{behind}"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=f"{indent}  ")
