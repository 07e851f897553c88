"""`agentrl COMMAND`: find the command, run it, turn its outcome into an exit code.

In    the words behind `agentrl`
Out   0 done, 1 the run failed, 2 you gave something wrong, 3 a check found problems,
      130 interrupted but saved; one line on standard error for a mistake
Not   what commands do; and until one is named, nothing but the standard library is loaded
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType

from agentrl.errors import AgentRLError, UsageError, suggestion
from agentrl.glyphs import forgiving
from agentrl.prints import bound_streams
from agentrl.version import __version__
from agentrl.visible import visible

DONE, FAILED, WRONG, PROBLEMS, INTERRUPTED = 0, 1, 2, 3, 130

COMMANDS = {
    "train": ("agentrl.cli.train", "train a policy in an environment"),
    "eval": ("agentrl.cli.evaluate", "measure a policy on held-out tasks"),
    "report": ("agentrl.cli.report", "tell of runs on one page, and in Markdown"),
    "runs": ("agentrl.cli.runs", "list runs: what, how far, how good"),
    "config": ("agentrl.cli.configs", "show, check and compare settings"),
    "doctor": ("agentrl.cli.doctor", "say what this machine can do, and what it lacks"),
    "export": ("agentrl.cli.export", "write a run's policy as a plain Hugging Face folder"),
    "compare": ("agentrl.cli.compare", "compare evaluations of the same tasks"),
    "rescore": ("agentrl.cli.rescore", "give recorded episodes a new reward"),
    "rollout": ("agentrl.cli.rollout", "play groups and write them to a file"),
    "sft": ("agentrl.cli.sft", "learn from kept trajectories of such files"),
    "serve": ("agentrl.cli.serve", "start a vLLM server to train with"),
    "plan": ("agentrl.cli.plan", "say what fits into a GPU's memory, without one"),
    "envs": ("agentrl.cli.envs", "list, show, check, play and write environments"),
    "mcp": ("agentrl.cli.serve_mcp", "serve an environment's tools to other agents, over MCP"),
    "tools": ("agentrl.cli.tools", "list, show and call the tools for environments"),
    "select": ("agentrl.cli.select", "choose the trajectories to train on, and say why"),
    "view": ("agentrl.cli.view", "show trajectories, and why each was kept, as a page"),
}
"""Name to module and summary; the module's `run(words)` returns the exit code."""

_SHUT = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP)
"""What keeps a path from being looked at."""
_MODEL_COMMANDS = ("train", "eval", "rollout", "sft")
_LOOKS = ("-h", "--help", "--dry-run")

_HELP = """\
usage: agentrl COMMAND [options]

Reinforcement learning for agents that use tools over many turns.

commands:
{commands}

options of every command:
  -h, --help     what it does and two examples
  --json         one JSON document on standard output, all else on standard error
  -q, --quiet    only the result
  -v, --verbose  tracebacks and the warnings of libraries
  --version      the version, without a command

examples:
  agentrl train --env tool_math --n 32 --m 8
  agentrl select --rewards 0,0,1,.5 --m 2
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; None takes the words of this process."""
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None:
        sys.excepthook = report_bug
        forgiving(sys.stdout)
        forgiving(sys.stderr)
        bound_streams()
    verbose = bool({"-v", "--verbose"} & set(words))
    return conclude(
        lambda: _run(words, verbose, own_process=argv is None),
        verbose=verbose,
        as_json="--json" in words,
    )


def conclude(run: Callable[[], int], *, verbose: bool = False, as_json: bool = False) -> int:
    """Run, and tell what a person can put right in one line; a bug passes through.

    Args:
        run: The command.
        verbose: Whether tracebacks are shown.
        as_json: Whether a program reads standard output: then an error is its one document.
    """
    try:
        return _path_told(run)
    except AgentRLError as error:
        if verbose:
            traceback.print_exc()
        _complain(str(error))
        if as_json:
            sys.stdout.write(f"{json.dumps({'error': str(error)}, indent=2)}\n")
        return WRONG if isinstance(error, UsageError) else FAILED
    except KeyboardInterrupt:
        _complain("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader is gone; without this Python would fail once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _path_told(run: Callable[[], int]) -> int:
    """Run; a path that the system keeps shut, wherever it was looked at, is no bug of ours."""
    try:
        return run()
    except OSError as error:
        if error.errno not in _SHUT or error.filename is None:
            raise
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
        raise UsageError(
            f"{name}: {error.strerror}. Give a path that you may use, or change who may."
        ) from error


def report_bug(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """The last words on an exception that nobody foresaw."""
    sys.__excepthook__(kind, error, trace)
    sys.stderr.write(
        f"agentrl {__version__}: this is ours, not yours. Please report the lines above "
        "with the command that you gave.\n"
    )


def _run(words: Sequence[str], verbose: bool, *, own_process: bool) -> int:
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS)) + 2
        commands = [f"  {name:<{width}}{summary}" for name, (_, summary) in COMMANDS.items()]
        sys.stdout.write(_HELP.format(commands="\n".join(commands)))
        return DONE if words else WRONG
    if name == "--version":
        sys.stdout.write(f"agentrl {__version__}\n")
        return DONE
    if name not in COMMANDS:
        hint = suggestion(name, COMMANDS, "`agentrl --help` lists all.")
        raise UsageError(f"{name}: no such command. {hint}")
    if own_process and name in _MODEL_COMMANDS and not set(_LOOKS) & set(words):
        _prepare_process(verbose)
    module = _loaded(COMMANDS[name][0])
    code: int = module.run(words[1:])
    sys.stdout.flush()
    return code


def _loaded(name: str) -> ModuleType:
    """The module of a command; a package that it needs and that is not there is no bug."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "agentrl"):
            raise
        raise UsageError(
            f"{missing}: it is not installed, and agentrl needs it. "
            f"Run: {sys.executable} -m pip install agentrl-pods. `agentrl doctor` lists all."
        ) from error


def _prepare_process(verbose: bool) -> None:
    """What must be so before torch is loaded; the process of a Python caller is left alone."""
    import warnings

    from agentrl import machine, quiet

    if not verbose:
        quiet.prepare_libraries(os.environ)
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
    if not machine.has_gpu():
        stale = quiet.prepare_cpu(os.environ, machine.cores())
        if stale and quiet.can_restart():
            quiet.restart(os.environ)
    if machine.torchvision_misfits():
        raise UsageError(
            "torchvision: it was built for a GPU, torch for a CPU. transformers cannot load a "
            f"model beside it. Run: {sys.executable} -m pip uninstall -y "
            "torchvision torchaudio torchcodec."
        )


def _complain(text: str) -> None:
    """One line, whatever it quotes."""
    sys.stdout.flush()
    sys.stderr.write(f"{visible(' '.join(text.split()))}\n")
