"""`agentrl select`: rewards → which trajectories are trained on, and what that is worth."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentrl.amounts import plural
from agentrl.cli.asking import Asked, add_flags, asked, asked_by, choose, costs, given, masked
from agentrl.cli.output import Output, output
from agentrl.cli.paper import columns, drawn, is_terminal
from agentrl.cli.parser import Parser
from agentrl.cli.rows import Rows, listed, read, recorded, whole
from agentrl.cli.strip import WIDTH, Shown, comparison, reasons, strip
from agentrl.cli.strip import recorded as kept_by_run
from agentrl.cli.tint import tinted
from agentrl.errors import UsageError
from agentrl.selection import Selection
from agentrl.selection.question import OPTIMAL
from agentrl.selection.rules import RULES
from agentrl.visible import on_a_line, visible

EXAMPLES = (
    "--rewards 0,0,1,.5 --tokens 10,20,30,40 --m 2 --token-budget 50",
    "runs/tool_math-001 --step 4 --compare",
)
REPORTED = (
    *("q_kept", "q_all", "tokens_kept", "tokens_all", "cost_kept", "rule", "method"),
    *("upper_bound", "gap", "price", "length_ratio"),
)
"""What `--json` takes from the report as it is."""


def run(words: Sequence[str]) -> int:
    """Choose, and show the choice."""
    args = _parser().read(words)
    _check(args)
    rows, own = _source(args)
    wanted = asked(args, own)
    rows = masked(rows, wanted)
    with output(args.json) as out:
        if args.compare:
            _compare(rows, wanted, out)
        else:
            _explain(rows, wanted, own, args, out)
    return 0


def document(found: Selection, rows: Rows) -> dict[str, Any]:
    """The choice as `--json` prints it."""
    report = found.report
    groups = {
        str(label): {
            "kept": list(group.kept),
            "spread_all": group.spread_all,
            "spread_kept": group.spread_kept,
            "flat": group.flat,
        }
        for label, group in report.groups.items()
    }
    notes = {str(label): group.note or group.dropped for label, group in report.groups.items()}
    found_by_run = kept_by_run(found, rows)
    ran = {} if found_by_run is None else {"kept": found_by_run.kept, "same": found_by_run.same}
    return {
        "kept": list(found.indices),
        "weights": list(found.weights),
        **{name: getattr(report, name) for name in REPORTED},
        "groups": groups,
        "notes": {label: note for label, note in notes.items() if note},
        "excluded": {str(row): why for row, why in reasons(found, rows).items()},
        **({"recorded": ran} if ran else {}),
    }


def _compare(rows: Rows, wanted: Asked, out: Output) -> None:
    """Every rule on the same rows under the same limits, as far as it knows them."""
    found: dict[str, Selection] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    for rule in RULES:
        own, left_out[rule] = wanted.by(rule)
        found[rule] = choose(rows, own)
    out.document = {
        rule: document(one, rows) | {"left_out": list(left_out[rule])}
        for rule, one in found.items()
    }
    out.say(comparison(found, left_out, columns(WIDTH)))


def _explain(rows: Rows, wanted: Asked, own: Asked, args: argparse.Namespace, out: Output) -> None:
    flags = given(args)
    # What the run asked and this rule has not got is left out; what a flag asks is refused.
    asked_now, left_out = wanted.by(wanted.options.get("rule", OPTIMAL), flags)
    found = choose(rows, asked_now)
    settings = {"effective_length": wanted.effective_length, "truncated": wanted.truncated}
    out.document = document(found, rows) | {"asked": {**asked_now.options, **settings}}
    width = columns(WIDTH)
    told = strip(
        Shown(
            found,
            rows,
            costs(rows, wanted),
            unit="cost" if wanted.effective_length else "tokens",
            budget=asked_now.options.get("token_budget"),
            flags=list(flags.values()),
            title=_title(args, rows, asked_now),
            width=width,
        )
    )
    told = visible(told)
    out.draw(drawn(tinted(told), width) if is_terminal() and not out.as_json else told)
    if left_out:
        out.say(f"without the run's {', '.join(left_out)}: this rule has none")


def _title(args: argparse.Namespace, rows: Rows, wanted: Asked) -> str:
    """The step that is explained; nothing where numbers were typed in."""
    if args.run is None:
        return ""
    name, groups = on_a_line(Path(args.run).name), plural(len(set(rows.groups)), "group")
    played = plural(len(rows.rewards), "trajectory", "trajectories")
    most = f"at most {wanted.options['m']} of each are kept"
    return f"{name} step {args.step}: {played} in {groups}, {most}"


def _check(args: argparse.Namespace) -> None:
    """Refuse options that do not go with each other."""
    sources = [args.rewards is not None, args.file is not None, args.run is not None]
    if sum(sources) != 1:
        raise UsageError(
            "agentrl select: no rewards. Give one of --rewards, --file, or RUN with --step."
        )
    if args.tokens is not None and args.rewards is None:
        raise UsageError(
            "--tokens: it goes with --rewards. Leave it out elsewhere: each row has its own."
        )
    if args.step is not None and args.run is None:
        raise UsageError("--step: it is a step of RUN. Name the run, or leave it out.")
    if args.truncated is not None and args.rewards is not None:
        raise UsageError(
            "--truncated: --rewards cannot say which rows were cut off. "
            'Use --file, and the field "truncated".'
        )
    if args.compare and args.rule is not None:
        raise UsageError("--rule: --compare shows every rule. Leave one of the two out.")


def _source(args: argparse.Namespace) -> tuple[Rows, Asked]:
    """The rows, and what is asked of them unless flags say otherwise."""
    if args.run is None:
        rows = read(args.file) if args.file is not None else listed(args.rewards, args.tokens)
        return rows, Asked()
    # Not above: a run's folder is not needed for numbers that were typed in.
    from agentrl.record import locate

    if args.step is None:
        raise UsageError(f"agentrl select {args.run}: which step? Add --step K.")
    folder, step = locate(args.run, args.out), whole("--step", args.step)
    return recorded(folder, step), asked_by(folder, step)


def _parser() -> Parser:
    parser = Parser("select", "choose the trajectories to train on, and say why", EXAMPLES)
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run whose step is explained, by its own settings"
    )
    parser.add_argument("--step", help="step of RUN")
    parser.add_argument("--out", default="runs", help="folder of all runs [runs]")
    parser.add_argument("--rewards", help="one reward a trajectory, with commas between")
    parser.add_argument(
        "--tokens", help="tokens to train on each, with commas between; 1 if absent"
    )
    parser.add_argument(
        "--file",
        help='lines {"group": "a", "reward": 1.0, "tokens": 9, "valid": true, "truncated": false}; '
        "all but the reward may be absent; - is stdin",
    )
    parser.add_argument("--compare", action="store_true", help="every rule, side by side")
    add_flags(parser)
    return parser
