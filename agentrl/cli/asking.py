"""Words → what `select()` is asked, and its answer.

In    the flags of `agentrl select`, and the settings of a run where one is explained
Out   Asked; the Selection of rows
Not   the rows (rows.py), nor how an answer looks (strip.py)
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentrl import disk
from agentrl.cli.parser import Parser
from agentrl.cli.rows import Rows, whole
from agentrl.errors import UsageError
from agentrl.record import RunFolder
from agentrl.selection import Selection, effective_tokens, select
from agentrl.selection.question import OPTIMAL
from agentrl.selection.rules import RULES
from agentrl.selection.truncation import POLICIES
from agentrl.selection.within import WITHIN

if TYPE_CHECKING:
    from agentrl.config import TrainConfig

NUMBERS = {
    "m": "most trajectories to keep of each group",
    "floor": "fewest to keep of a group with contrast [0]",
    "floor_tokens": "a group with contrast keeps what so many tokens would bring it [0]",
    "seed": "seed of what is drawn [0]",
}
LIMITS = {
    "token_budget": "most tokens to keep of all groups together, or none; auto in a RUN",
    "cap": "most to keep of a group, if less than m, or none",
    "cap_tokens": "most tokens to keep of a group, or none",
}
NAMES = {
    "rule": f"which m: {', '.join(RULES)} [{OPTIMAL}]",
    "within": f"which of equal rewards: {', '.join(WITHIN)} [auto]",
}
SWITCHES = {
    "padded": "every kept row of a group costs as much as its longest",
    "unbiased": "every row gets a chance, and a weight that undoes it",
}
OPTIONS = (*NUMBERS, *LIMITS, *NAMES, *SWITCHES)

_MENTIONS = re.compile(
    r"\b(token_budget|floor_tokens|cap_tokens|m(?= (?:is )?\d)"
    rf"|(?:rule|within)(?= (?:{'|'.join([*RULES, *WITHIN])})\b))"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the selection."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of `select()`."""
    effective_length: int = 0
    """Length at which attention costs as much as the rest; 0 counts plain tokens."""
    truncated: str = "score"
    """What the reward of a cut-off trajectory counts as."""
    auto: int | None = None
    """The token budget that `auto` means; None where there is no run to tell."""

    def by(self, rule: str, given: Collection[str] = ()) -> tuple[Asked, tuple[str, ...]]:
        """The same of another rule, and which options it has not got and were left out.

        Args:
            rule: The rule.
            given: Options that stay, so that a rule refuses them in its own words.
        """
        out: tuple[str, ...] = ()
        if rule != OPTIMAL:
            special = {name: self.options.get(name) for name in ("floor", "floor_tokens")}
            special["unbiased"] = self.options.get("unbiased")
            special["within"] = self.options.get("within") == "ht"
            out = tuple(name for name, on in special.items() if on and name not in given)
        kept = {name: value for name, value in self.options.items() if name not in out}
        return replace(self, options={**kept, "rule": rule}), out


def add_flags(parser: Parser) -> None:
    """The options of the command that are arguments of `select()`, or close to one."""
    for name, text in (NUMBERS | LIMITS | NAMES).items():
        parser.add_argument(flag(name), help=text)
    for name, text in SWITCHES.items():
        parser.add_argument(
            flag(name), action=argparse.BooleanOptionalAction, default=None, help=text
        )
    parser.add_argument(
        "--effective-length",
        metavar="L0",
        help="a row costs L + L*L/L0 tokens: attention costs as much as the rest at L0; 0 is L",
    )
    parser.add_argument(
        "--truncated", help=f"what a cut-off reward counts as: {', '.join(POLICIES)} [score]"
    )


def flag(name: str) -> str:
    """The flag of an argument."""
    return f"--{name.replace('_', '-')}"


def given(args: argparse.Namespace) -> dict[str, str]:
    """Names of what flags asked, each as it was written."""
    found = {name: getattr(args, name) for name in (*OPTIONS, "effective_length", "truncated")}
    return {
        name: f"--no-{name}" if value is False else _written(name, value)
        for name, value in found.items()
        if value is not None
    }


def _written(name: str, value: object) -> str:
    return flag(name) if value is True else f"{flag(name)} {value}"


def asked(args: argparse.Namespace, own: Asked) -> Asked:
    """What flags ask, over what a run did."""
    options = dict(own.options)
    for name in OPTIONS:
        value = getattr(args, name)
        if value is not None:
            options[name] = _value(name, value, own)
    if "m" not in options:
        raise UsageError("--m: required. `agentrl select --help` shows how.")
    length, truncated = own.effective_length, args.truncated or own.truncated
    if args.effective_length is not None:
        length = _least("--effective-length", args.effective_length, 0)
    return replace(own, options=options, effective_length=length, truncated=truncated)


def _value(name: str, value: Any, own: Asked) -> Any:
    if name in NUMBERS:
        return whole(flag(name), value)
    if name not in LIMITS:
        return value
    if value == "none":
        return None
    if value == "auto" and name == "token_budget":
        if own.auto is None:
            raise UsageError(
                "--token-budget auto: it comes of a run's micro-batches, and there is no run. "
                "Give a number of tokens."
            )
        return own.auto
    return _least(flag(name), value, 1, "Write none for no limit.")


def _least(name: str, text: str, least: int, hint: str = "Give another.") -> int:
    value = whole(name, text)
    if value < least:
        raise UsageError(f"{name}: {text} is not a whole number of at least {least}. {hint}")
    return value


def asked_by(run: RunFolder, step: int) -> Asked:
    """What a run asked at a step; nothing where its settings are not there."""
    config = settings_of(run)
    if config is None:
        return Asked()
    automatic = config.update.tokens_per_micro_batch == "auto"
    return asked_at(run, config, step, _cap_at(run, step) if automatic else None)


def settings_of(run: RunFolder) -> TrainConfig | None:
    """The settings of a run; None where they are not there."""
    path = run.path / "config.toml"
    if not path.is_file():
        return None
    # Here, not above: numbers that were typed in need none of what settings load.
    from agentrl.cli.config import Family
    from agentrl.config import TrainConfig
    from agentrl.settings import TRAIN_FLAGS
    from agentrl.tomlfile import read

    return Family(TrainConfig, TRAIN_FLAGS).resolve([read(path)], []).config


def asked_at(run: RunFolder, config: TrainConfig, step: int, cap: int | None) -> Asked:
    """What a run of these settings asked at a step.

    Args:
        run: Its folder, for complaints.
        config: Its settings.
        step: The step.
        cap: Tokens of a micro-batch at that step, where memory decided them.
    """
    from agentrl.group import seed_for

    section, tokens = config.select, config.update.tokens_per_micro_batch
    if tokens == "auto":
        tokens = cap or 0
    if not tokens and section.token_budget == "auto":
        raise UsageError(
            f"{run.path / 'config.toml'}: token_budget auto, and metrics.jsonl does not say what "
            f"that was at step {step}. Give --token-budget."
        )
    options = asdict(section.question(tokens))
    options |= {"m": section.m, "cap": section.cap or None}
    options["seed"] = seed_for(config.train.seed, step, "0", 0)
    derived = section.model_copy(update={"token_budget": "auto"}).question(tokens)
    budget = derived.token_budget if tokens else None
    return Asked(options, section.attention_length, section.truncated, budget)


def _cap_at(run: RunFolder, step: int) -> int | None:
    """Tokens of a micro-batch at a step, where memory decided them."""
    path = run.path / "metrics.jsonl"
    rows = disk.rows(path) if path.is_file() else ()
    found = (row.get("plan/cap") for row in rows if row.get("step") == step)
    return next((int(cap) for cap in found if cap), None)


def choose(rows: Rows, wanted: Asked) -> Selection:
    """The selection, whose complaints speak of flags and lines."""
    with _in_flags(rows):
        return select(
            rows.rewards,
            rows.tokens,
            groups=rows.groups,
            valid=rows.valid,
            costs=costs(rows, wanted) if wanted.effective_length else None,
            **wanted.options,
        )


def costs(rows: Rows, wanted: Asked) -> list[int]:
    """What each row counts against a budget."""
    length = wanted.effective_length
    # A negative length is told by the selection, with its row.
    return [effective_tokens(max(0, t), length) if length else t for t in rows.tokens]


def masked(rows: Rows, wanted: Asked) -> Rows:
    """The rows, where what was cut off counts as it should."""
    with _in_flags(rows):
        return rows.under(wanted.truncated)


@contextmanager
def _in_flags(rows: Rows) -> Iterator[None]:
    """Messages about an argument of `select()` are about a flag here, or about a line."""
    try:
        yield
    except UsageError as error:
        where, colon, text = str(error).partition(":")
        row = re.fullmatch(r"(\w+)\[(\d+)\]", where)
        if row:
            name = "effective-length" if row[1] == "costs" else row[1]
            where = f"{rows.places[int(row[2])]}: {name}" if rows.places else f"--{name}"
        elif where in (*OPTIONS, "truncated"):
            where = flag(where)
        text = _MENTIONS.sub(lambda found: flag(found[0]), text)
        raise UsageError(f"{where}{colon}{text}") from error
