"""`agentrl select`: rewards → which trajectories are trained on, and what that is worth."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.cli.rows import Rows, listed, read, recorded, whole
from agentrl.errors import UsageError
from agentrl.selection import Selection, select
from agentrl.selection.rules import RULES

EXAMPLES = (
    "--rewards 0,0,1,.5 --tokens 10,20,30,40 --m 2",
    "runs/tool_math-001 --step 4 --compare",
)
BARS = "▁▂▃▄▅▆▇█"
SHORT = 16
"""Groups up to this size are shown with their numbers too."""


def run(words: Sequence[str]) -> int:
    """Choose, and show the choice."""
    args = _parser().read(words)
    rows = _rows(args)
    with output(args.json) as out:
        if args.compare:
            found = {rule: _select(args, rows, rule) for rule in RULES}
            out.document = {rule: document(one) for rule, one in found.items()}
            out.say(comparison(found))
            return 0
        one = _select(args, rows, args.rule)
        out.document = document(one)
        out.say(strip(one, rows))
    return 0


def comparison(found: dict[str, Selection]) -> str:
    """Every rule on the same rows, best Q first."""
    lines = [f"{'rule':<14}{'Q':>12}{'kept':>8}{'tokens':>10}   method"]
    for rule, one in sorted(found.items(), key=lambda item: -item[1].report.q_kept):
        r = one.report
        lines.append(f"{rule:<14}{r.q_kept:>12.6g}{r.kept:>8}{r.tokens_kept:>10}   {r.method}")
    return "\n".join(lines)


def document(found: Selection) -> dict[str, Any]:
    """The choice as `--json` prints it."""
    report = found.report
    names = ("q_kept", "q_all", "tokens_kept", "method", "upper_bound", "gap", "price")
    groups = {
        str(label): {
            "kept": list(group.kept),
            "spread_all": group.spread_all,
            "spread_kept": group.spread_kept,
            "flat": group.flat,
        }
        for label, group in report.groups.items()
    }
    return {
        "kept": list(found.indices),
        "weights": list(found.weights),
        **{name: getattr(report, name) for name in names},
        "groups": groups,
        "excluded": {str(row): why for row, why in report.excluded.items()},
    }


def strip(found: Selection, rows: Rows) -> str:
    """The choice for a person: each group's rewards as bars in order, the kept ones marked."""
    report = found.report
    lines = [line for label in report.groups for line in _strip_of(found, rows, label)]
    lines += [f"row {row} is out: {why}" for row, why in report.excluded.items()]
    lines.append(f"kept rows {' '.join(map(str, found.indices)) or 'none'}, of {report.of}")
    bound = f" (at most {report.upper_bound:.6g})" if report.gap > 0 else ""
    lines.append(
        f"Q {report.q_kept:.6g} of {report.q_all:.6g}{bound} · "
        f"tokens {report.tokens_kept} of {report.tokens_all} · {report.rule}: {report.method}"
    )
    return "\n".join(lines)


def _strip_of(found: Selection, rows: Rows, label: Any) -> list[str]:
    group, kept = found.report.groups[label], set(found.indices)
    own = [i for i, other in enumerate(rows.groups) if other == label]
    ranked = sorted((i for i in own if i not in found.report.excluded), key=rows.reward)
    spread = f"spread {group.spread_all:.4g} -> {group.spread_kept:.4g}"
    lines = [
        f"group {str(label)[:12]}: kept {len(group.kept)} of {group.of} · {group.dropped or spread}"
    ]
    if ranked:
        lines.append(f"  {_bars([rows.reward(i) for i in ranked])}")
        lines.append(f"  {''.join('^' if i in kept else ' ' for i in ranked)}".rstrip())
    if ranked and len(ranked) <= SHORT:
        shown = (f"[{rows.reward(i):g}]" if i in kept else f"{rows.reward(i):g}" for i in ranked)
        lines.append(f"  {' '.join(shown)}")
    return lines


def _bars(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    steps = len(BARS) - 1
    scale = steps / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in values)


def _rows(args: argparse.Namespace) -> Rows:
    given = [args.rewards is not None, args.file is not None, args.run is not None]
    if sum(given) != 1:
        raise UsageError("agentrl select: give one of --rewards, --file, or RUN with --step.")
    if args.run is not None:
        from agentrl.record import locate

        if args.step is None:
            raise UsageError(f"agentrl select {args.run}: which step? Add --step K.")
        return recorded(locate(args.run), whole("--step", args.step))
    return read(args.file) if args.file is not None else listed(args.rewards, args.tokens)


def _parser() -> Parser:
    parser = Parser("select", "choose the trajectories to train on, and say why", EXAMPLES)
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run whose step is explained")
    parser.add_argument("--step", help="step of RUN")
    parser.add_argument("--rewards", help="one reward a trajectory, with commas between")
    parser.add_argument(
        "--tokens", help="tokens to train on each, with commas between; 1 if absent"
    )
    parser.add_argument(
        "--file", help='lines {"group":"a","reward":1.0,"tokens":120,"valid":true}; - is stdin'
    )
    parser.add_argument("--m", required=True, help="most trajectories to keep of each group")
    parser.add_argument("--token-budget", help="most tokens to keep of all groups together")
    parser.add_argument("--rule", default="max_variance", help="which m [max_variance]")
    parser.add_argument("--compare", action="store_true", help="every rule, side by side")
    parser.add_argument("--within", default="auto", help="which of equal rewards [auto]")
    parser.add_argument("--seed", default="0", help="seed of what is drawn [0]")
    return parser


def _select(args: argparse.Namespace, rows: Rows, rule: str) -> Selection:
    budget = args.token_budget
    with _in_flags():
        return select(
            rows.rewards,
            rows.tokens,
            m=whole("--m", args.m),
            token_budget=None if budget is None else whole("--token-budget", budget),
            groups=rows.groups,
            valid=rows.valid,
            rule=rule,
            within=args.within,
            seed=whole("--seed", args.seed),
        )


@contextmanager
def _in_flags() -> Iterator[None]:
    """Messages about an argument of `select()` are about a flag here."""
    try:
        yield
    except UsageError as error:
        name, colon, text = str(error).partition(":")
        if name in ("rule", "within", "m", "seed", "token_budget", "tokens", "rewards"):
            name = f"--{name.replace('_', '-')}"
        raise UsageError(f"{name}{colon}{text}") from error
