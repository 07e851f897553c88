"""`agentrl envs play`: a person is the policy.

In    an environment, lines from standard input
Out   the messages of an episode, and what it earned
Not   a chat: what is typed is a turn, as a policy's would be
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentrl.cli.argument import arguments_of
from agentrl.cli.entry import DONE, FAILED
from agentrl.cli.keyboard import END, QUIT, texts
from agentrl.cli.options import parser_of, split_options
from agentrl.cli.output import Output, output
from agentrl.cli.parser import Parser
from agentrl.cli.score import score
from agentrl.cli.signature import hint, signature
from agentrl.errors import UsageError, suggestion
from agentrl.visible import on_a_line, visible

if TYPE_CHECKING:
    from agentrl.env import ToolEnv
    from agentrl.message import AssistantTurn, Message

EXAMPLES = ("tool_math", "code_math --split test --index 3 --multiline")
COMMANDS = {
    "/call": "TOOL key=value ...: use a tool; key=@file takes what is in a file",
    "/tools": "the tools and their parameters",
    "/task": "the task again",
    "/history": "all that was said",
    "/help": "these commands",
    QUIT: "leave, without a reward",
}
HELP = "Type an answer, or /call TOOL key=value ..., /tools, /task, /history, /help, /quit."


def run(words: Sequence[str]) -> int:
    """Play an episode by hand."""
    options, rest = split_options(words)
    args = _parser().read(rest)
    with output(args.json) as out:
        from agentrl import registry
        from agentrl.supply import supply

        env = registry.make(args.env, **options)
        source = supply(env, args.split, args.env)
        if not 0 <= args.index < len(source):
            raise UsageError(
                f"--index {args.index}: there are {len(source)} {args.split} tasks. Count from 0."
            )
        task = source[args.index]
        try:
            opening, _ = env.reset(seed=args.seed, options={"task": task, "split": args.split})
            if not args.quiet:
                out.say(_title(env, args, len(source)))
            _play(env, opening, args, out)
        finally:
            env.close()
        out.document = _outcome(env)
        out.say(score(out.document))
    return FAILED if out.document["stop"] == "env_error" else DONE


def _parser() -> Parser:
    parser = parser_of("play", "play an episode yourself", EXAMPLES)
    parser.add_argument("--split", default="train", help="of the task [train]")
    parser.add_argument("--index", type=int, default=0, help="of the task in its split [0]")
    parser.add_argument("--seed", type=int, default=0, help="of the episode [0]")
    parser.add_argument(
        "--multiline", action="store_true", help=f"an answer ends with a line of {END!r} alone"
    )
    return parser


def _title(env: ToolEnv, args: argparse.Namespace, size: int) -> str:
    text = f"{args.env} · {args.split} task {args.index} of {size} · {env.max_turns} turns at most"
    return on_a_line(text)


def _play(env: ToolEnv, opening: Sequence[Message], args: argparse.Namespace, out: Output) -> None:
    _show(opening, out)
    if not args.quiet:
        _tools(env, out)
        out.say(HELP)

    def prompt() -> str:
        return f"turn {len(env.turns) + 1} of {env.max_turns}> "

    def words() -> list[str]:
        return [*COMMANDS, *_schemas(env)]

    for text in texts(prompt, words, args.multiline):
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
        _hint(env, out)


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
    _look(env, command, out)
    return None


def _look(env: ToolEnv, command: str, out: Output) -> None:
    """What costs no turn.

    Raises:
        UsageError: there is no such command.
    """
    from agentrl.trajectory import conversation

    if command == "/tools":
        _tools(env, out)
    elif command == "/task":
        _show(env.opening, out)
    elif command == "/history":
        _show(conversation(env.opening, env.turns), out)
    elif command == "/help":
        out.say("\n".join(f"{name:<9} {what}" for name, what in COMMANDS.items()))
    else:
        near = suggestion(command, COMMANDS, HELP)
        raise UsageError(f"{command}: no such command. {near}")


def _hint(env: ToolEnv, out: Output) -> None:
    """Say what would have worked, where a call did not."""
    turn, schemas = env.turns[-1], _schemas(env)
    for call, outcome in zip(turn.calls, turn.outcomes, strict=False):
        told = hint(outcome.name, outcome.status, list(call.arguments), schemas)
        if told:
            out.say(on_a_line(f"hint: {told}"))


def _tools(env: ToolEnv, out: Output) -> None:
    for name, schema in _schemas(env).items():
        summary = schema["description"].partition("\n")[0]
        out.say(on_a_line(f"{signature(name, schema)}  {summary}"))


def _schemas(env: ToolEnv) -> dict[str, dict[str, Any]]:
    return {s["function"]["name"]: s["function"] for s in env.tool_schemas()}


def _show(messages: Sequence[Message], out: Output) -> None:
    for message in messages:
        name = f" {message['name']}" if "name" in message else ""
        calls = [
            f"-> {call['function']['name']} {call['function']['arguments']}"
            for call in message.get("tool_calls") or ()
        ]
        said = [str(message["content"])] if message["content"] or not calls else []
        out.say(visible("\n".join([f"[{message['role']}{name}]", *said, *calls])))


def _outcome(env: ToolEnv) -> dict[str, Any]:
    from agentrl.trajectory import conversation, tool_calls, tool_failures

    end = env.end
    return {
        "task_id": env.task.id if env.task else None,
        "stop": end.stop.value if end else None,
        "reward": end.reward if end else None,
        "reward_parts": dict(end.parts or {}) if end else None,
        "correct": end.correct if end else None,
        "problem": end.problem if end else "",
        "turns": len(env.turns),
        "tool_calls": tool_calls(env.turns),
        "tool_failures": tool_failures(env.turns),
        "answer": env.task.answer if env.task and end else None,
        "messages": conversation(env.opening, env.turns),
    }
