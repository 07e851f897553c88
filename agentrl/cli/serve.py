"""`agentrl serve`: a vLLM server that `agentrl train --engine vllm-server` can train with.

In    the settings that the run will have: the same files and flags
Out   a server in processes of its own; its URL and the command that trains with it, when it is up
Not   more than one: start it again with another --port
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from agentrl.cli.config import Family, config_file, takes_files
from agentrl.cli.entry import DONE
from agentrl.cli.parser import Parser, split_settings
from agentrl.config import TrainConfig
from agentrl.errors import UsageError
from agentrl.settings import TRAIN_FLAGS
from agentrl.tomlfile import TomlFile

if TYPE_CHECKING:
    from agentrl.engines.servers.launch import Running

EXAMPLES = (
    "--model tiny",
    "--config servers --port 8001",
)
FLAGS = {name: TRAIN_FLAGS[name] for name in ("--model", "--seed")}
PORT, SECONDS = 8000, 900.0
ENDS = (signal.SIGTERM, signal.SIGHUP)


def run(words: Sequence[str]) -> int:
    """Serve until it is interrupted."""
    family = Family(TrainConfig, FLAGS)
    flags, rest = split_settings(words, FLAGS, family.switches())
    args = _parser(family).read(rest, FLAGS)
    if not 0 < args.timeout < float("inf"):
        raise UsageError(f"--timeout {args.timeout:g}: must be more than 0 seconds.")
    files = [config_file(text) for text in args.config]
    # The run is told of its servers; a server need not know of itself.
    config = family.resolve([_unserved(file) for file in files], flags).config
    from agentrl.engines.servers import launch
    from agentrl.weights import folder_of

    where = launch.place(args.host, args.port, public=args.public)
    folder = folder_of(config.model.name)
    show = sys.stderr.write if args.verbose else _nowhere
    with launch.metadata(where) as extra, ended_by_signals():
        environ = launch.environment(config, where, os.environ | extra, verbose=args.verbose)
        running = launch.Running(launch.command(config, folder, where), environ, where, show)
        try:
            running.wait_until_up(args.timeout)
            _announce(running, config, args.config, as_json=args.json, quiet=args.quiet)
            running.wait()
        finally:
            running.stop()
    return DONE


def _parser(family: Family[TrainConfig]) -> Parser:
    parser = Parser("serve", "start a vLLM server to train with", EXAMPLES)
    parser.usage = "agentrl serve [--model M] [--port P] [--config FILE] [--SETTING VALUE ...]"
    parser.epilog = (
        "settings are those of `agentrl train`; of use here are --model, --seed, --model.*, "
        f"--engine.*\nand --rollout.max_context\n\n{parser.epilog}"
    )
    takes_files(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on [127.0.0.1]")
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"port to listen on; 0 takes a free one [{PORT}]"
    )
    parser.add_argument(
        "--public",
        action="store_true",
        help="let other machines reach it; they can run code on this one",
    )
    parser.add_argument(
        "--timeout", type=float, default=SECONDS, help=f"seconds to come up [{SECONDS:g}]"
    )
    return parser


def _announce(
    running: Running, config: TrainConfig, files: Sequence[str], *, as_json: bool, quiet: bool
) -> None:
    """Say where it is, at once: the command goes on."""
    url = running.where.url
    words = ["agentrl", "train", "--engine", "vllm-server", "--url", url]
    words += [part for text in files for part in ("--config", text)]
    if not files:
        words += ["--model", config.model.name]
    if config.model.lora_rank and not files:
        words += ["--model.lora_rank", str(config.model.lora_rank)]
    told = {"url": url, "pid": running.pid, "train": shlex.join(words)}
    text = f"up: {url} (Ctrl-C stops it)\ntrain with it: {told['train']}\n"
    if quiet:
        text = f"{url}\n"
    sys.stdout.write(f"{json.dumps(told)}\n" if as_json else text)
    sys.stdout.flush()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, and a terminal that is closed, end it as Ctrl-C does: with its children."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    # What nohup has it ignore it goes on to ignore.
    ours = [s for s in ENDS if signal.getsignal(s) != signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _unserved(file: TomlFile) -> TomlFile:
    """A file without the addresses that a run is given."""
    engine = dict(file.values.get("engine", {}))
    for name in ("name", "urls"):
        engine.pop(name, None)
    return replace(file, values={**file.values, "engine": engine})


def _nowhere(text: str) -> int:
    return len(text)
