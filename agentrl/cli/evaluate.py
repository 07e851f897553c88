"""`agentrl eval`: settings → accuracy on tasks, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentrl.cli.config import Family, config_file
from agentrl.cli.output import output
from agentrl.cli.parser import Parser, split_settings
from agentrl.config import EvalConfig
from agentrl.settings import EVAL_FLAGS
from agentrl.tomlfile import TomlFile, read

EXAMPLES = (
    "--env tool_math",
    "--env tool_math --run runs/tool_math-001 --tasks 500 --k 4 --json",
)

SHARED = ("env", "rollout")
"""Sections that an evaluation takes from the run it measures, unless flags say otherwise."""


def run(words: Sequence[str]) -> int:
    """Measure a policy."""
    family = Family(EvalConfig, EVAL_FLAGS)
    flags, rest = split_settings(words, EVAL_FLAGS, family.switches())
    parser = Parser("eval", "measure a policy on tasks that it was not trained on", EXAMPLES)
    parser.usage = "agentrl eval [--env ENV] [--run RUN] [--SETTING VALUE ...] [options]"
    parser.epilog = f"{family.help()}\n\n{parser.epilog}"
    parser.add_argument(
        "--config", action="append", default=[], help="a TOML file, or the name of a shipped one"
    )
    args = parser.read(rest, EVAL_FLAGS)
    files = [config_file(text) for text in args.config]
    run_name = next((v for k, v in reversed(flags) if family.short.get(k, k[2:]) == "eval.run"), "")
    if run_name:
        files.insert(0, _as_trained(run_name))
    resolved = family.resolve(files, flags)
    with output(args.json) as out:
        from agentrl.evaluation import evaluate

        found = evaluate(resolved.config, command=("agentrl", "eval", *words))
        out.document = found.as_json()
        out.say(table(out.document))
    return 0


def _as_trained(name: str) -> TomlFile:
    """What the run was trained in and how it was sampled: measured otherwise, it would differ."""
    from agentrl.record import locate

    file = read(locate(name.partition("@")[0]).path / "config.toml")
    return replace(file, values={k: v for k, v in file.values.items() if k in SHARED})


def table(found: Mapping[str, Any]) -> str:
    """The evaluation for a person."""
    rows = [
        ("tasks", f"{found['tasks']} of {found['env']}, split {found['split']}"),
        ("attempts", f"{found['episodes']} ({found['k']} a task, {found['errors']} not scored)"),
        ("accuracy", _interval(found["accuracy"])),
        ("reward", _interval(found["reward"])),
        *((f"pass@{j}", _number(share)) for j, share in found["pass_at"].items() if j != "1"),
        *((f"pass all {j}", _number(share)) for j, share in found["pass_all"].items() if j != "1"),
        ("truncated", f"{found['truncated']}"),
        ("turns", f"{_number(found['turns'])} an attempt"),
        (
            "tool calls",
            f"{_number(found['tool_calls'])} an attempt, {found['invalid_calls']} failed",
        ),
        ("tokens", f"{found['tokens']} sampled"),
        *(
            (f"{kind} {word}"[:40], f"{_interval(told)} ({told['tasks']} tasks)")
            for kind, words in found["by"].items()
            for word, told in words.items()
        ),
    ]
    if found.get("path"):
        rows.append(("written", found["path"]))
    width = max(12, *(len(name) + 2 for name, _ in rows))
    return "\n".join(f"{name:<{width}}{value}" for name, value in rows)


def _interval(found: Mapping[str, Any] | None) -> str:
    if found is None or found["mean"] is None:
        return "nothing could be scored"
    return f"{found['mean']:.3f}   95% interval {found['low']:.3f} to {found['high']:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
