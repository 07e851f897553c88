"""Tier 2: computer algebra on a pair of texts, in the sandbox.

In    pairs of small texts that exact comparison could not decide; a runner
Out   True, False or None for each, and the reason in words
Not   in this process: math-verify and sympy hang on many texts, and a process can be
      killed. Nor believed in all it says: what it is known to get wrong is not asked, and
      a yes that could be one of its mistakes is none

math-verify gets texts as JSON and answers with one line, which counts only if the child ended
well. The child has no more of the task than these texts.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from agentrl.errors import SandboxUnavailable
from agentrl.graders.latex import MAX_DEPTH, nested
from agentrl.graders.splitting import related
from agentrl.sandbox import Sandbox
from agentrl.sandbox.result import Limits, MiB, Result

MAX_TEXT = 300
MAX_DIGITS = 50
MAX_FACTORIAL = 100
SLOTS = 8
"""Calls at once; more wait."""

Pair = tuple[str, str]
Outcome = bool | None
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
    pairs: Sequence[Pair], timeout: float, runner: Runner | None = None
) -> tuple[list[Outcome], str]:
    """What algebra says of each pair, and why where it says nothing.

    Args:
        pairs: Gold and answer, in the one spelling.
        timeout: Seconds, for all of them together.
        runner: Where to run it; the sandbox that this process keeps for it, if not given.
    """
    said, problem = _run(pairs, timeout, runner)
    if said is None:
        return [None] * len(pairs), f"undecided: {problem}"
    judged = [_judged(pair, reply) for pair, reply in zip(pairs, said, strict=True)]
    reasons = [reason for outcome, reason in judged if outcome is not True]
    return [outcome for outcome, _ in judged], reasons[0] if reasons else "math-verify says so"


def _judged(pair: Pair, reply: Reply) -> tuple[Outcome, str]:
    gold, answer, same = reply
    if not gold:
        return None, f"undecided: math-verify can't read {pair[0][:80]!r}"
    if not answer:
        # A policy that isn't sure must not be able to write its way out of the group.
        return False, f"{pair[1][:80]!r} is no mathematics that anybody here can read"
    doubt = doubtful(*pair) if same else ""
    return (None, doubt) if doubt else (same, "math-verify says so")


def doubtful(gold: str, answer: str) -> str:
    """Why a yes of math-verify on this pair may be one of its known mistakes; "" if not."""
    checks = {
        "two numbers side by side are added up": bool(_BESIDE.search(answer)),
        "of a relation only one side is compared": len(related(gold)[1]) != len(related(answer)[1]),
        "a tuple and a set are taken for each other": _brackets(gold) != _brackets(answer)
        and "," in gold + answer,
        "elements are dropped": gold.count(",") != answer.count(","),
        "nan equals nan": bool(_NAN.search(gold + answer)),
        "small values are rounded to zero": bool(_TINY.search(gold) and _TINY.search(answer)),
    }
    doubt = next((reason for reason, applies in checks.items() if applies), "")
    return f"undecided: algebra says yes, but {doubt} there" if doubt else ""


def readable(text: str, timeout: float, runner: Runner | None = None) -> str:
    """Why algebra can't read a text; "" if it can."""
    if not is_small(text):
        return "it is too large for algebra"
    said, problem = _run([(text, text)], timeout, runner)
    if said is None:
        return problem
    return "" if said[0][0] else "math-verify finds no mathematics in it"


def _run(
    pairs: Sequence[Pair], timeout: float, runner: Runner | None
) -> tuple[list[Reply] | None, str]:
    texts = json.dumps([[text.translate(_LATEX) for text in pair] for pair in pairs])
    limits = Limits(cpu=timeout, wall=timeout, memory=1024 * MiB)
    code = f"PAIRS = {json.dumps(texts)}\n{_PROGRAM}"
    try:
        result = (runner or shared_sandbox()).run(code, limits=limits)
    except SandboxUnavailable as error:
        return None, f"no sandbox: {error}"
    if result.status != "ok":
        return None, f"algebra ended with {result.status}"
    said = _said(result.stdout)
    if said is None or len(said) != len(pairs):
        return None, "algebra's reply can't be read"
    return said, ""


def _said(stdout: str) -> list[Reply] | None:
    try:
        said = json.loads(stdout.strip().rpartition("\n")[2])
    except ValueError:
        return None
    whole = isinstance(said, list) and all(
        isinstance(reply, list) and [type(x) for x in reply] == [bool] * 3 for reply in said
    )
    return [tuple(reply) for reply in said] if whole else None


def _brackets(text: str) -> str:
    return "".join(character for character in text if character in "([⦃⦄])")


_making = threading.Lock()


def shared_sandbox() -> Sandbox:
    """The sandbox that this process keeps for algebra; made when it is first needed."""
    with _making:
        return _sandbox()


@lru_cache(maxsize=1)
def _sandbox() -> Sandbox:
    return Sandbox(packages=("math-verify",), preload=("math_verify",), slots=SLOTS)
