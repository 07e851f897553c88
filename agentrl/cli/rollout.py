"""`agentrl rollout`: settings → a file of trajectories for later use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentrl.cli.config import Family, files_of, takes_files
from agentrl.cli.output import output
from agentrl.cli.parser import Parser, split_settings
from agentrl.events import Event, Played
from agentrl.offline import RolloutConfig
from agentrl.settings import ROLLOUT_FLAGS

if TYPE_CHECKING:
    from agentrl.rollout import Collection

EXAMPLES = (
    "--env tool_math --n 32 --tasks 200 --out groups.jsonl",
    "--env tool_math --run runs/tool_math-001@40 --n 8 --out later.jsonl --json",
)


def run(words: Sequence[str]) -> int:
    """Play and write."""
    family = Family(RolloutConfig, ROLLOUT_FLAGS)
    flags, rest = split_settings(words, ROLLOUT_FLAGS, family.switches())
    parser = Parser("rollout", "play groups and write them to a file, training nothing", EXAMPLES)
    parser.usage = "agentrl rollout --out FILE [--env ENV] [--n N] [--SETTING VALUE ...] [options]"
    parser.epilog = f"{family.help()}\n\n{parser.epilog}"
    takes_files(parser)
    args = parser.read(rest, ROLLOUT_FLAGS)
    files = files_of(args.config, family.last(flags, "collect.run"))
    resolved = family.resolve(files, flags)
    with output(args.json) as out:
        from agentrl.rollout import rollout

        listeners = () if args.quiet else (_progress,)
        command = ("agentrl", "rollout", *words)
        found = rollout(resolved.config, command=command, listeners=listeners)
        out.document = found.as_json()
        out.say(_told(found))
    return 130 if found.status == "stopped" else 0


def _progress(event: Event) -> None:
    """On standard error: what is on standard output is the result."""
    if isinstance(event, Played):
        sys.stderr.write(f"played {event.done} of {event.of} episodes\n")


def _told(found: Collection) -> str:
    reward = "nothing could be scored" if found.reward is None else f"{found.reward:.3f}"
    lines = [
        f"{found.status}: {found.tasks} groups of {found.n}, {found.tokens} sampled tokens",
        f"reward {reward}, {found.errors} not scored",
        f"written {found.path}",
        f'next: agentrl sft --data {found.path} --keep "correct=true" --out RUN_FOLDER',
    ]
    return "\n".join(lines)
