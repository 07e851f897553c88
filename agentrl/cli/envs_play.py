"""`agentrl envs play`: a person is the policy.

In    an environment, lines from standard input
Out   the messages of an episode, and what it earned
Not   a chat: what is typed is a turn, as a policy's would be
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agentrl.cli.argument import arguments_of
from agentrl.cli.entry import DONE, FAILED
from agentrl.cli.options import parser_of, split_options
from agentrl.cli.output import Output, output
from agentrl.errors import UsageError, suggestion
from agentrl.visible import visible

if TYPE_CHECKING:
    from agentrl.env import ToolEnv
    from agentrl.message import AssistantTurn, Message

EXAMPLES = ("tool_math", "code_math --split test --index 3 --multiline")
HELP = (
    "Type an answer, or /call TOOL key=value ..., /tools, /quit. key=@file takes what is in a file."
)
END = "."


def run(words: Sequence[str]) -> int:
    """Play an episode by hand."""
    options, rest = split_options(words)
    parser = parser_of("play", "play an episode yourself", EXAMPLES)
    parser.add_argument("--split", default="train", help="of the task [train]")
    parser.add_argument("--index", type=int, default=0, help="of the task in its split [0]")
    parser.add_argument("--seed", type=int, default=0, help="of the episode [0]")
    parser.add_argument(
        "--multiline", action="store_true", help=f"an answer ends with a line of {END!r} alone"
    )
    args = parser.read(rest)
    with output(args.json) as out:
        from agentrl import registry
        from agentrl.supply import supply

        env = registry.make(args.env, **options)
        source = supply(env, args.split, args.env)
        if not 0 <= args.index < len(source):
            raise UsageError(f"--index {args.index}: there are {len(source)} {args.split} tasks.")
        task = source[args.index]
        try:
            opening, _ = env.reset(seed=args.seed, options={"task": task, "split": args.split})
            _play(env, opening, args, out)
        finally:
            env.close()
        out.document = _outcome(env)
        out.say(_told(out.document))
    return FAILED if out.document["stop"] == "env_error" else DONE


def _play(env: ToolEnv, opening: Sequence[Message], args: argparse.Namespace, out: Output) -> None:
    _show(opening, out)
    if not args.quiet:
        out.say(HELP)
    lines = _lines(args.multiline)
    for text in lines:
        try:
            turn = _turn(env, text, out)
        except UsageError as error:
            out.say(visible(str(error)))
            continue
        if turn is None:
            continue
        _show(env.step(turn)[0], out)
        if env.end is not None:
            return


def _lines(multiline: bool) -> Iterator[str]:
    """What was typed, until /quit or the end of the input."""
    held: list[str] = []
    while True:
        if sys.stdin.isatty():
            sys.stderr.write("> " if not held else "... ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line or (line.strip() == "/quit" and not held):
            return
        line = line.rstrip("\n")
        if not multiline or (line.startswith("/") and not held):
            yield line
        elif line == END:
            yield "\n".join(held)
            held = []
        else:
            held.append(line)


def _turn(env: ToolEnv, text: str, out: Output) -> AssistantTurn | None:
    """The turn that a line means; None where it asked for something else."""
    from agentrl.formats.hermes import parse
    from agentrl.message import AssistantTurn, ToolCall

    if not text.startswith("/"):
        return parse(text)
    command, _, rest = text.partition(" ")
    if command == "/call":
        try:
            name, *words = shlex.split(rest)
        except ValueError as error:
            raise UsageError(f"{text}: not a call. Write /call TOOL key=value ...") from error
        parameters = _schemas(env).get(name, {}).get("parameters", {})
        return AssistantTurn("", (ToolCall(name, arguments_of(words, parameters)),))
    if command != "/tools":
        hint = suggestion(command, ("/call", "/tools", "/quit"), HELP)
        raise UsageError(f"{command}: no such command. {hint}")
    for name, schema in _schemas(env).items():
        keys = ", ".join(schema["parameters"].get("properties", {}))
        summary = schema["description"].partition("\n")[0]
        out.say(visible(f"{name}({keys})  {summary}"))
    return None


def _schemas(env: ToolEnv) -> dict[str, dict[str, Any]]:
    return {s["function"]["name"]: s["function"] for s in env.tool_schemas()}


def _show(messages: Sequence[Message], out: Output) -> None:
    for message in messages:
        name = f" {message['name']}" if "name" in message else ""
        out.say(visible(f"[{message['role']}{name}]\n{message['content']}"))


def _outcome(env: ToolEnv) -> dict[str, Any]:
    from agentrl.trajectory import conversation

    end = env.end
    return {
        "task_id": env.task.id if env.task else None,
        "stop": end.stop.value if end else None,
        "reward": end.reward if end else None,
        "reward_parts": dict(end.parts or {}) if end else None,
        "correct": end.correct if end else None,
        "problem": end.problem if end else "",
        "messages": conversation(env.opening, env.turns),
    }


def _told(found: dict[str, Any]) -> str:
    if found["stop"] is None:
        return "left before the end: no reward."
    if found["reward"] is None:
        return visible(f"stop {found['stop']} · no reward. {found['problem']}")
    parts = " ".join(f"{name} {value:g}" for name, value in found["reward_parts"].items())
    right = "correct" if found["correct"] else "not correct"
    return visible(f"stop {found['stop']} · reward {found['reward']:g} ({parts}) · {right}")
