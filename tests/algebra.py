"""Runners for tier 2: one runs it here, one says what it is told to, one breaks at answers."""

import contextlib
import io
import json
from dataclasses import dataclass, field

from agentrl.graders.symbolic import _PLAIN
from agentrl.sandbox.result import Result


class Here:
    """The real program, in this process: for texts that are known to be harmless."""

    def run(self, code, *, limits=None):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, {})
        return Result("ok", out.getvalue(), 0.0, 0)


@dataclass
class Says:
    """Answers every call with the same result, and keeps what it was asked."""

    stdout: str = ""
    status: str = "ok"
    asked: list = field(default_factory=list)

    def run(self, code, *, limits=None):
        self.asked.append((code, limits))
        return Result(self.status, self.stdout, 0.0, 0)


@dataclass
class Breaks:
    """Ends in one way where an answer is asked about, and is well where a gold alone is."""

    result: Result
    calls: int = 0

    def run(self, code, *, limits=None):
        self.calls += 1
        (line,) = [line for line in code.splitlines() if line.startswith("PAIRS = ")]
        pairs = json.loads(json.loads(line.removeprefix("PAIRS = ")))
        if any(answer != _PLAIN for _, answer in pairs):
            return self.result
        return Result("ok", json.dumps([[True, True, False]] * len(pairs)), 0.0, 0)
