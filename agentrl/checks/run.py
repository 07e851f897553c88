"""Running the checks: each for itself, with an end, whatever the author's code does.

In    an environment, its options
Out   Report
Not   protection from code that ends the process: it is run in this one
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from agentrl.author import TooSlow, run_author
from agentrl.blocking import refuse_running_loop
from agentrl.checks.bench import Bench, Skip
from agentrl.checks.report import Finding, Problem, Report
from agentrl.checks.subject import subject_of
from agentrl.checks.surroundings import put_back
from agentrl.checks.table import CHECKS, Check
from agentrl.env import ToolEnv
from agentrl.errors import AgentRLError, EnvironmentFault, blame

LIMIT = 30.0
"""Seconds of one check."""
MOST = 3
"""Problems that one check tells of."""


def check_env(
    env: str | type[ToolEnv] | ToolEnv,
    *,
    options: Mapping[str, Any] | None = None,
    seconds: float = LIMIT,
) -> Report:
    """Look for what breaks reinforcement learning in an environment.

    The author's code runs in this process; environment variables, working folder and global
    random state are put back where it changes them.

    Args:
        env: A name as behind `--env`, a subclass of ToolEnv, or an instance that was not played.
        options: Keyword arguments of a name or a class.
        seconds: Of one check; one that takes longer has failed, and those after it are left out.

    Raises:
        UsageError: there is no such environment, or it has no such option.
    """
    refuse_running_loop("check_env", "await asyncio.to_thread(agentrl.check_env, env)")
    bench = Bench(subject_of(env, options or {}), seconds)
    return run_checks(CHECKS, bench)


def run_checks(checks: Sequence[Check], bench: Bench) -> Report:
    """What these checks find."""
    return Report(bench.subject.name, tuple(_all(checks, bench)))


def _all(checks: Sequence[Check], bench: Bench) -> Iterator[Finding]:
    broken = ""
    for check in checks:
        if broken:
            yield Finding(check.name, "skipped", check.what, why=f"mend {broken} first")
            continue
        found, ended = _one(check, bench)
        yield from found
        if not ended or (check.vital and found[0].status == "failed"):
            broken = check.name


def _one(check: Check, bench: Bench) -> tuple[list[Finding], bool]:
    """What came of a check, and whether it came to its end."""
    bench.notes.clear()
    seconds = bench.seconds
    try:
        # Put back after each, or the next one would take a change for how things are.
        with put_back(), blame(EnvironmentFault, check.name):
            problems = asyncio.run(run_author(partial(_problems, check, bench), seconds=seconds))
    except TooSlow:
        problems = [
            Problem(
                bench.subject.stuck(),
                f"nothing came of it within {seconds:g} seconds.",
                "Let it end by itself: bound what it waits for, and what it loops over.",
            )
        ]
        return _failed(check, problems), False
    except Skip as skip:
        return [Finding(check.name, "skipped", check.what, why=str(skip))], True
    except AgentRLError as error:
        problems = [Problem(bench.subject.raised(error), _line(error), "Mend that line.")]
    if problems:
        return _failed(check, problems), True
    return [Finding(check.name, "passed", check.what, why="; ".join(bench.notes))], True


def _problems(check: Check, bench: Bench) -> list[Problem]:
    with blame(EnvironmentFault, check.name):
        return list(islice(check.find(bench), MOST))


def _failed(check: Check, problems: list[Problem]) -> list[Finding]:
    return [Finding(check.name, "failed", check.what, p.where, p.why, p.next) for p in problems]


def _line(error: AgentRLError) -> str:
    """One line, ending as a sentence does."""
    text = " ".join(str(error).split())[:500]
    return text if text.endswith((".", "?", "!")) else f"{text}."
