"""`agentrl export`: a run's checkpoint → a folder that transformers and vLLM load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError

EXAMPLES = (
    "runs/tool_math-001 --out policy",
    "tool_math-001 --step 40 --adapter --out adapter",
)


def run(words: Sequence[str]) -> int:
    """Export a checkpoint."""
    parser = Parser("export", "write a run's policy as a plain Hugging Face folder", EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under --runs")
    parser.add_argument("--out", required=True, metavar="DIR", help="a folder that is not there")
    parser.add_argument("--step", metavar="K", help="step of a checkpoint [the newest whole one]")
    parser.add_argument("--adapter", action="store_true", help="only the LoRA adapter, for peft")
    parser.add_argument("--merge", action="store_true", help="the whole model [the default]")
    parser.add_argument("--runs", default="runs", metavar="DIR", help="folder of all runs [runs]")
    args = parser.read(words)
    if args.adapter and args.merge:
        raise UsageError("--adapter: it is one form, --merge the other. Give one of them.")
    with output(args.json) as out:
        from agentrl.export import export
        from agentrl.record import locate

        found = export(
            locate(args.run, args.runs), Path(args.out), step=_step(args.step), adapter=args.adapter
        )
        out.document = asdict(found)
        out.say(
            f"{found.run} step {found.step} -> {found.path} "
            f"({found.form} of {found.base}, {found.bytes / 1e6:.1f} MB)"
        )
        if found.form == "model":
            out.say(f"next: agentrl eval --model {found.path}")
    return 0


def _step(text: str | None) -> int | None:
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    raise UsageError(f"--step {text}: no step. Give the number of a checkpoint, or leave it out.")
