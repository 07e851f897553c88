"""Tier 2: computer algebra on a pair of texts, in the sandbox.

In    pairs of small texts that exact comparison could not decide; a runner
Out   True, False or None for each, and the reason in words; None is for what the gold or the
      machinery did, and False for what the answer did
Not   in this process: math-verify and sympy hang on many texts, and a process can be
      killed. Nor believed in all it says: what it is known to get wrong is not asked, and
      a yes that could be one of its mistakes is none

math-verify gets texts as JSON and answers with one line, which counts only if the child ended
well. The child has no more of the task than these texts.
"""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from agentrl.errors import SandboxUnavailable
from agentrl.graders.latex import MAX_DEPTH, nested
from agentrl.graders.splitting import every_comma, inside, related
from agentrl.sandbox import Sandbox
from agentrl.sandbox.result import Limits, MiB, Result

MAX_TEXT = 300
MAX_DIGITS = 50
MAX_FACTORIAL = 100
SLOTS = 8
"""Calls at once; more wait."""

Pair = tuple[str, str]
Outcome = bool | None
Judged = tuple[Outcome, str]
"""What is said of a pair, and why."""
Reply = tuple[bool, bool, bool]
"""Whether the gold could be read, whether the answer could, and whether they are the same."""


class Runner(Protocol):
    """Whatever runs code and tells how it ended: a Sandbox, or a test's double."""

    def run(self, code: str, *, limits: Limits | None = None) -> Result:
        """Run it."""
        ...


_PROGRAM = """
import json, logging
from math_verify import LatexExtractionConfig, parse, verify
from sympy import I
logging.disable()
def read(text):
    return parse("$" + text + "$", [LatexExtractionConfig()], fallback_mode="no_fallback",
                 parsing_timeout=None, raise_on_error=False)
def near(gold, answer):
    # Constants with i, which is read as a variable.
    try:
        gold, answer = (x.subs([(s, I) for s in x.free_symbols if s.name == "i"])
                        for x in (gold, answer))
        if gold.free_symbols or answer.free_symbols:
            return False
        apart, size = (abs(complex(x.evalf(40))) for x in (gold - answer, gold))
        return apart <= 1e-25 * size < float("inf")
    except (AttributeError, TypeError, ValueError, OverflowError):
        return False
def same(gold, answer):
    gold, answer = read(gold), read(answer)
    if not gold or not answer:
        return bool(gold), bool(answer), False
    said = verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True)
    return True, True, bool(said or near(gold[0], answer[0]))
print()
print(json.dumps([same(*pair) for pair in json.loads(PAIRS)]))
"""

_LONG_NUMBER = re.compile(rf"[0-9]{{{MAX_DIGITS + 1}}}")
_FACTORIAL = re.compile(r"([0-9]+|[^0-9]) *!")
_RAISED = re.compile(r"\^ *(?:\{[^{}]*\^|[A-Za-z0-9] *\^|-?[0-9]{5}|\{ *-?[0-9]{5})")
_SYMBOLS = {
    "≤": "\\le ",
    "≥": "\\ge ",
    "≠": "\\ne ",
    "∈": "\\in ",
    "∞": "\\infty ",
    "\N{UNION}": "\\cup ",
    "±": "\\pm ",
    "∅": "\\emptyset ",
    "°": "^{\\circ}",
    "⦃": "\\{",
    "⦄": "\\}",
    "¤": "\\$",
}
_LATEX = str.maketrans(_SYMBOLS)

_BESIDE = re.compile(r"[0-9.] +[0-9.]")
_TINY = re.compile(r"\^ *\{? *-|0\.0000|[0-9]{7}|!")
_NAN = re.compile(r"nan|undefined|zoo", re.IGNORECASE)


_PLAIN = "7"
"""What a gold is held against to see whether it alone is quick: not what it is itself."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """What came back from a child: replies, or why there are none."""

    said: tuple[Reply, ...] = ()
    problem: str = ""
    broken: bool = False
    """Whether the machinery failed, whatever the texts were."""


def is_small(text: str) -> bool:
    """Whether algebra may be asked about a text at all."""
    if len(text) > MAX_TEXT or nested(text) > MAX_DEPTH or _LONG_NUMBER.search(text):
        return False
    if _RAISED.search(text):
        return False
    return all(
        found[1].isascii()
        and (found[1].isalpha() or found[1].isdigit())
        and (not found[1].isdigit() or int(found[1]) <= MAX_FACTORIAL)
        for found in _FACTORIAL.finditer(text)
    )


def ask(
    pairs: Sequence[Pair], timeout: float, exact: bool, runner: Runner | None = None
) -> list[Judged]:
    """What algebra says of each pair, and why.

    Args:
        pairs: Gold and answer, in the one spelling, both small.
        timeout: Seconds, for all of them together; as many again to look at the gold alone.
        exact: Whether exact comparison can read the gold: what algebra can't do with it is then
            due to the answer, which had algebra asked.
        runner: Where to run it; the sandbox that this process keeps for it, if not given.
    """
    heard = _run(pairs, timeout, runner)
    if not heard.problem:
        return [_judged(pair, said, exact) for pair, said in zip(pairs, heard.said, strict=True)]
    if heard.broken or not (exact or _quick([gold for gold, _ in pairs], timeout, runner)):
        return [(None, heard.problem)] * len(pairs)
    return [(False, f"{heard.problem}, for which the gold alone is no reason")] * len(pairs)


def _quick(golds: Sequence[str], timeout: float, runner: Runner | None) -> bool:
    """Whether golds alone are read, and told from a number, in the time that there is."""
    heard = _run([(gold, _PLAIN) for gold in dict.fromkeys(golds)], timeout, runner)
    return not heard.problem and all(reply[0] for reply in heard.said)


def _judged(pair: Pair, reply: Reply, exact: bool) -> Judged:
    gold, answer, same = reply
    if not gold:
        return False if exact else None, f"math-verify can't read {pair[0][:80]!r}"
    if not answer:
        # A policy that isn't sure must not be able to write its way out of the group.
        return False, f"{pair[1][:80]!r} is no mathematics that anybody here can read"
    doubt = doubtful(*pair) if same else ""
    return (None, doubt) if doubt else (same, "math-verify says so")


def doubtful(gold: str, answer: str) -> str:
    """Why a yes of math-verify on this pair may be one of its known mistakes; "" if not."""
    (one, few), (other, many) = _shape(gold), _shape(answer)
    checks = {
        "two numbers side by side are added up": bool(_BESIDE.search(answer)),
        "of a relation only one side is compared": len(related(gold)[1]) != len(related(answer)[1]),
        "a tuple and a set are taken for each other": one != other and max(few, many) > 1,
        "elements are dropped": few != many,
        "nan equals nan": bool(_NAN.search(gold + answer)),
        "small values are rounded to zero": bool(_TINY.search(gold) and _TINY.search(answer)),
    }
    doubt = next((reason for reason, applies in checks.items() if applies), "")
    return f"algebra says yes, but {doubt} there" if doubt else ""


def readable(text: str, timeout: float, runner: Runner | None = None) -> str:
    """Why algebra can't do with a gold, whatever the answer; "" if it can."""
    if not is_small(text):
        return "it is too large for algebra"
    heard = _run([(text, _PLAIN)], timeout, runner)
    if heard.problem:
        return heard.problem
    return "" if heard.said[0][0] else "math-verify finds no mathematics in it"


def _run(pairs: Sequence[Pair], timeout: float, runner: Runner | None) -> _Heard:
    texts = json.dumps([[text.translate(_LATEX) for text in pair] for pair in pairs])
    limits = Limits(cpu=timeout, wall=timeout, memory=1024 * MiB)
    code = f"PAIRS = {json.dumps(texts)}\n{_PROGRAM}"
    try:
        result = (runner or shared_sandbox()).run(code, limits=limits)
    except SandboxUnavailable as error:
        return _Heard(problem=f"no sandbox: {error}", broken=True)
    if result.status != "ok":
        return _Heard(
            problem=f"algebra ended with {result.status}", broken=_broken(result, timeout)
        )
    said = _said(result.stdout)
    if said is None or len(said) != len(pairs):
        return _Heard(problem="algebra's reply can't be read")
    return _Heard(tuple(said))


def _broken(result: Result, timeout: float) -> bool:
    """Whether it ended so for no text's doing; a kill that no limit brought about is one."""
    outside = result.status == "killed" and result.signal == signal.SIGKILL
    # On a busy machine too, what had half of its time and had not ended is slow by itself.
    starved = result.host_overload and result.cpu < timeout / 2
    return outside or starved or result.status == "sandbox_failure"


def _said(stdout: str) -> list[Reply] | None:
    try:
        said = json.loads(stdout.strip().rpartition("\n")[2])
    except ValueError:
        return None
    whole = isinstance(said, list) and all(
        isinstance(reply, list) and [type(x) for x in reply] == [bool] * 3 for reply in said
    )
    return [tuple(reply) for reply in said] if whole else None


def _shape(text: str) -> tuple[str, int]:
    """The brackets around a text, and how many parts commas make of it."""
    ends, content = inside(text) or ("", text)
    return ends, len(every_comma(content))


_making = threading.Lock()


def shared_sandbox() -> Sandbox:
    """The sandbox that this process keeps for algebra; made when it is first needed."""
    with _making:
        return _sandbox()


@lru_cache(maxsize=1)
def _sandbox() -> Sandbox:
    return Sandbox(packages=("math-verify",), preload=("math_verify",), slots=SLOTS)
