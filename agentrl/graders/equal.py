"""Whether an answer is the gold answer: exactly where possible, by algebra where not.

In    a gold answer, an answer, a policy
Out   Verdict of tier 1 (the exact calculator and structure, in this process) or of tier 2
      (computer algebra, in the sandbox); whether a gold can be graded at all
Not   a reward: `reward_of` says what an undecided one is worth. Never an exception for
      what the texts are
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from agentrl.exact import parse_number
from agentrl.graders.compare import Outcome, compare
from agentrl.graders.extract import bare
from agentrl.graders.form import Form, Kind
from agentrl.graders.structure import read
from agentrl.graders.symbolic import Runner, ask, is_small, readable
from agentrl.graders.values import rounds_to
from agentrl.graders.verdict import Policy, Verdict

_POLICY = Policy()
MAX_ASKED = 24
"""Pairs of one comparison that algebra is asked about."""

Said = tuple[Outcome, int, str]


def math_equal(
    gold: object,
    answer: object,
    *,
    timeout: float = 2.0,
    policy: Policy = _POLICY,
    runner: Runner | None = None,
) -> Verdict:
    """Compare an answer with the gold answer.

    Args:
        gold: The right answer, first: the comparison isn't symmetric.
        answer: The text of the answer alone, as `final_answer` gives it.
        timeout: Seconds of processor and of wall time that algebra may take.
        policy: What to overlook.
        runner: Where algebra runs; this process's sandbox for it, if not given.
    """
    begin = time.perf_counter()
    texts = str(gold), str(answer)
    said = _plain(bare(texts[0]), bare(texts[1]), policy)
    correct, tier, reason = said or _read(*texts, policy, timeout, runner)
    return Verdict(correct, reason, time.perf_counter() - begin, tier)


def check_gold(gold: object, *, timeout: float = 2.0, runner: Runner | None = None) -> str | None:
    """Why a gold answer can't be graded, for when data are loaded; None if it can be.

    Args:
        gold: The right answer of a task.
        timeout: Seconds that algebra may take to read it.
        runner: Where algebra runs; this process's sandbox for it, if not given.
    """
    text = str(gold)
    form = read(text)
    if not text.strip():
        return "the gold answer is empty"
    for part in _leaves(form):
        if part.kind is Kind.NOTHING:
            return f"{part.text[:80]!r} has no value: no answer would be right"
        if part.kind is Kind.OPAQUE:
            problem = readable(part.text, timeout, runner) if part.text else part.name
            if problem:
                return f"{text[:80]!r} can't be read: {problem}"
    return None


def _plain(gold: str, answer: str, policy: Policy) -> Said | None:
    """What needs no reading: the same text, and two plain numbers."""
    if gold == answer and gold.lower() != "nan":
        return True, 1, "same text"
    values = parse_number(gold), parse_number(answer)
    if values[0] is None or values[1] is None:
        return None
    same = values[0] == values[1] or rounds_to(values[0], answer, values[1], policy.digits)
    return same, 1, "compared as exact numbers"


def _read(gold: str, answer: str, policy: Policy, timeout: float, runner: Runner | None) -> Said:
    forms = read(gold), read(answer)
    for form, whose in zip(forms, ("gold", "answer"), strict=True):
        if form.kind is Kind.OPAQUE and not form.text:
            return None, 1, f"undecided: the {whose} can't be read: {form.name or 'it is empty'}"
    outcome, pairs = compare(*forms, policy)
    if outcome is not None:
        return outcome, 1, f"{forms[0].kind.value} against {forms[1].kind.value}"
    if not policy.algebra or not pairs or len(pairs) > MAX_ASKED:
        return None, 1, "undecided: exact comparison can't tell"
    return _by_algebra(forms, pairs, policy, timeout, runner)


def _by_algebra(
    forms: tuple[Form, Form],
    pairs: Sequence[tuple[str, str]],
    policy: Policy,
    timeout: float,
    runner: Runner | None,
) -> Said:
    large = next((text for pair in pairs for text in pair if not is_small(text)), None)
    if large is not None:
        return None, 1, f"undecided: {large[:80]!r} is too large for algebra"
    outcomes, reason = ask(pairs, timeout, runner)
    known = dict(zip(pairs, outcomes, strict=True))
    outcome, _ = compare(*forms, policy, known)
    return outcome, 2, reason if outcome is None else f"algebra: {reason}"


def _leaves(form: Form) -> list[Form]:
    if not form.parts:
        return [form]
    return [leaf for part in form.parts for leaf in _leaves(part)]
