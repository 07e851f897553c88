"""`agentrl select`: rewards → which trajectories are trained on, and what that is worth."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError, suggestion
from agentrl.selection import Selection, select

EXAMPLES = (
    "--rewards 0,0,1,.5 --tokens 10,20,30,40 --m 2",
    "--file groups.jsonl --m 8 --rule max_variance --json",
)
FIELDS = ("group", "reward", "tokens", "valid")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Rows:
    """What can be chosen from, one entry a trajectory."""

    rewards: list[float | None]
    tokens: list[int]
    groups: list[str]
    valid: list[bool]


def run(words: Sequence[str]) -> int:
    """Choose, and show the choice."""
    args = _parser().read(words)
    if (args.rewards is None) == (args.file is None):
        raise UsageError("agentrl select: give either --rewards or --file.")
    rows = _listed(args) if args.file is None else _read(args.file)
    with output(args.json) as out:
        found = _select(args, rows)
        out.document = document(found)
        out.say(strip(found, rows))
    return 0


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
    """The choice for a person: each group's rewards in order, the kept ones in brackets."""
    report, kept = found.report, set(found.indices)
    lines = []
    for label, group in report.groups.items():
        own = [i for i, other in enumerate(rows.groups) if other == label]
        ranked = sorted(
            (i for i in own if i not in report.excluded), key=lambda i: _reward(rows, i)
        )
        shown = [
            f"[{_reward(rows, i):g}]" if i in kept else f"{_reward(rows, i):g}" for i in ranked
        ]
        spread = f"spread {group.spread_all:.4g} -> {group.spread_kept:.4g}"
        lines.append(
            f"group {label}: kept {len(group.kept)} of {group.of} · {group.dropped or spread}"
        )
        lines.append(f"  {' '.join(shown) or '-'}")
    lines += [f"row {row} is out: {why}" for row, why in report.excluded.items()]
    lines.append(f"kept rows {' '.join(map(str, found.indices)) or 'none'}, of {report.of}")
    bound = f" (at most {report.upper_bound:.6g})" if report.gap > 0 else ""
    lines.append(
        f"Q {report.q_kept:.6g} of {report.q_all:.6g}{bound} · "
        f"tokens {report.tokens_kept} of {report.tokens_all} · {report.rule}: {report.method}"
    )
    return "\n".join(lines)


def _parser() -> Parser:
    parser = Parser("select", "choose the trajectories to train on, and say why", EXAMPLES)
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
    parser.add_argument("--within", default="auto", help="which of equal rewards [auto]")
    parser.add_argument("--seed", default="0", help="seed of what is drawn [0]")
    return parser


def _select(args: argparse.Namespace, rows: Rows) -> Selection:
    budget = args.token_budget
    with _in_flags():
        return select(
            rows.rewards,
            rows.tokens,
            m=_whole("--m", args.m),
            token_budget=None if budget is None else _whole("--token-budget", budget),
            groups=rows.groups,
            valid=rows.valid,
            rule=args.rule,
            within=args.within,
            seed=_whole("--seed", args.seed),
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


def _listed(args: argparse.Namespace) -> Rows:
    rewards: list[float | None] = [_number("--rewards", text) for text in args.rewards.split(",")]
    size = len(rewards)
    tokens = [1] * size
    if args.tokens is not None:
        tokens = [_whole("--tokens", text) for text in args.tokens.split(",")]
    if len(tokens) != size:
        raise UsageError(f"--tokens: {len(tokens)} numbers for {size} rewards. Give one for each.")
    return Rows(rewards, tokens, ["0"] * size, [True] * size)


def _number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a number.") from None


def _whole(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a whole number.") from None


def _read(file: str) -> Rows:
    rows = Rows([], [], [], [])
    for number, line in enumerate(_lines(file), 1):
        if line.strip():
            _add(rows, _object(f"{file}:{number}", line), f"{file}:{number}")
    return rows


def _lines(file: str) -> Iterable[str]:
    try:
        return sys.stdin if file == "-" else Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"--file {file}: cannot be read. {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--file {file}: not UTF-8 text (byte {error.start}).") from error


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON. {error}.") from error
    if not isinstance(found, dict) or "reward" not in found:
        raise UsageError(f"{where}: a line is an object with a reward, and perhaps tokens.")
    for name in found:
        if name not in FIELDS:
            hint = suggestion(name, FIELDS, f"Known: {', '.join(FIELDS)}.")
            raise UsageError(f"{where}: {name} is not a field. {hint}")
    return found


def _add(rows: Rows, row: Mapping[str, Any], where: str) -> None:
    rows.rewards.append(_field(row, "reward", (int, float, type(None)), None, where))
    rows.tokens.append(_field(row, "tokens", (int,), 1, where))
    rows.groups.append(str(_field(row, "group", (str, int), 0, where)))
    rows.valid.append(_field(row, "valid", (bool,), True, where))


def _field(
    row: Mapping[str, Any], name: str, kinds: tuple[type, ...], absent: Value, where: str
) -> Any:
    value = row.get(name, absent)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise UsageError(f"{where}: {name} {json.dumps(value)} is not one. See `--help`.")
    return value


def _reward(rows: Rows, row: int) -> float:
    value = rows.rewards[row]
    assert value is not None
    return value
