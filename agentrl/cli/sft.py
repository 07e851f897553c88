"""`agentrl sft`: files of trajectories → a policy that learned from the kept ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentrl.cli.config import Family, files_of, takes_files
from agentrl.cli.output import output
from agentrl.cli.parser import Parser, split_settings
from agentrl.offline import SftConfig
from agentrl.settings import SFT_FLAGS

if TYPE_CHECKING:
    from agentrl.sft import SftSummary

EXAMPLES = (
    "--data groups.jsonl --keep 'reward>=1' --out runs/taught",
    "--data a.jsonl --data b.jsonl --keep 'correct=true,turns<=3' --epochs 2 --out runs/short",
)


def run(words: Sequence[str]) -> int:
    """Learn."""
    family = Family(SftConfig, SFT_FLAGS)
    flags, rest = split_settings(words, SFT_FLAGS, family.switches())
    parser = Parser("sft", "learn from the kept trajectories of files", EXAMPLES)
    parser.usage = "agentrl sft --data FILE [--data FILE ...] --out RUN [--keep RULE] [options]"
    parser.epilog = f"{family.help()}\n\n{parser.epilog}"
    parser.add_argument(
        "--data", action="append", default=[], metavar="FILE", help="written by agentrl rollout"
    )
    takes_files(parser)
    args = parser.read(rest, SFT_FLAGS)
    resolved = family.resolve(files_of(args.config, ""), flags)
    with output(args.json) as out:
        from agentrl.sft import sft

        say = None if args.quiet else _progress
        found = sft(resolved.config, args.data, command=("agentrl", "sft", *words), say=say)
        out.document = found.as_json()
        out.say(_told(found))
    return 130 if found.status == "stopped" else 0


def _progress(text: str) -> None:
    """On standard error: what is on standard output is the result."""
    sys.stderr.write(f"{text}\n")


def _told(found: SftSummary) -> str:
    before, after = (_nats(found.loss[name]) for name in ("before", "after"))
    lines = [
        f"{found.status} after {found.steps} updates · {found.path}",
        f"kept {found.kept} of {found.rows} trajectories, {found.heldout} held out",
        f"held-out loss {before} -> {after} nats a token",
        f"next: agentrl eval --run {found.path}",
    ]
    return "\n".join(lines)


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
