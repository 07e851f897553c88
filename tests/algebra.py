"""A runner for tier 2 that runs it here, and one that only says what it is told to."""

import contextlib
import io
from dataclasses import dataclass, field

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
