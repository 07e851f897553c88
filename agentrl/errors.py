"""Every error a person can meet, by the side that is at fault.

In    nothing
Out   AgentRLError and its kinds; `blame`, which names the side an exception came from
Not   a place for messages: the text is written where the mistake is seen

    AgentRLError
    ├── UsageError          what the user gave is wrong: exit 2, one line, no traceback
    │   └── SandboxUnavailable   this machine cannot hold a policy's code
    ├── ToolError           a tool says no in words that the policy may read
    │   └── BadArguments    a call does not fit the tool's schema
    ├── EnvironmentFault    the environment or its infrastructure broke: never a reward
    ├── RenderError         a chat template cannot be used exactly
    ├── EngineError         an engine failed, or gave something that cannot be true
    │   └── TurnLost        one turn came to nothing: its episode is left out, the engine goes on
    ├── WeightSyncError     an engine does not compute with the weights it was handed
    └── RunError            a run cannot go on; what it had is kept
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from contextlib import AbstractContextManager

MAX_SAID = 10_000
"""Characters of somebody else's message that are passed on."""


class AgentRLError(Exception):
    """Base of all errors whose message is meant for a person."""


class UsageError(AgentRLError):
    """What the user gave is wrong; the message says where, what, why and what next."""


class SandboxUnavailable(UsageError):
    """Isolation below what was asked for; the message names what is missing and the ways out."""


class ToolError(AgentRLError):
    """A tool's readable refusal; its text becomes the tool's result."""


class BadArguments(ToolError):
    """Arguments of a call that do not fit the tool's schema, in words for the policy."""


class EnvironmentFault(AgentRLError):
    """An environment broke its promises or its infrastructure failed."""


class RenderError(AgentRLError):
    """A chat template cannot be rendered token-exactly; the message says why."""


class EngineError(AgentRLError):
    """An engine failed while generating or loading."""


class TurnLost(EngineError):
    """One turn was aborted, or its answer can't be used; the engine goes on with others."""


class WeightSyncError(EngineError):
    """After a hand-over the engine's log-probs are not those of the new weights."""


class RunError(AgentRLError):
    """A run cannot go on; files already written stay valid."""


def blame(kind: type[AgentRLError], doing: str) -> AbstractContextManager[None]:
    """Give whatever escapes this block the name of the side it came from.

    Everywhere else exceptions pass, but for the two places that carry one across a
    border: from the thread that steps an engine, and out of a weight iterator.
    """
    return _Blame(kind, doing)


class _Blame(AbstractContextManager[None]):
    """Not a generator: every turn of every episode passes through several."""

    __slots__ = ("_doing", "_kind")

    def __init__(self, kind: type[AgentRLError], doing: str) -> None:
        self._kind, self._doing = kind, doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None:
        # An author's code that calls exit() has failed like any other.
        if isinstance(error, Exception | SystemExit) and not isinstance(error, AgentRLError):
            said = f"{self._doing}: {type(error).__name__}: {_said(error)}"
            if issubclass(self._kind, UsageError):
                said = f"{said.rstrip('. ')}. Mend it; -v shows where."
            raise self._kind(said) from error


def _said(error: BaseException) -> str:
    """The beginning of an exception's message, whose text may be anything at all."""
    try:
        return str(error)[:MAX_SAID]
    except KeyboardInterrupt:
        raise
    except BaseException as inner:
        return f"(its message raised {type(inner).__name__})"


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`Did you mean X?` for the nearest known name, else the given sentence."""
    near = difflib.get_close_matches(name, list(known), 1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else otherwise
