"""Whether an answer is the gold answer: exactly where possible, by algebra where not.

In    a gold answer, an answer, a policy
Out   Verdict of tier 1 (the exact calculator and structure, in this process) or of tier 2
      (computer algebra, in the sandbox); whether a gold can be graded at all. Whatever the
      answer's shape brings about is False: None must not be a policy's to choose
Not   a reward: `reward_of` says what an undecided one is worth. Never an exception for
      what the texts are
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from agentrl.exact import parse_number
from agentrl.graders.compare import MAX_MATCHED, Outcome, Pair, compare, many_unordered
from agentrl.graders.extract import bare, final_answer
from agentrl.graders.form import Form, Kind
from agentrl.graders.points import same_at_points
from agentrl.graders.structure import read
from agentrl.graders.symbolic import Judged, Runner, ask, is_small, readable
from agentrl.graders.values import rounds_to
from agentrl.graders.verdict import Policy, Verdict

_POLICY = Policy()
MAX_ASKED = MAX_MATCHED**2
"""Pairs of one comparison that algebra is asked about."""
SHORT = 2000
"""Characters of a text whose answer is found in no time."""
_UNORDERED = (Kind.LIST, Kind.SET, Kind.UNION)

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
        timeout: Seconds of processor and of wall time that algebra may take; as many again for
            the gold alone, where the two together took longer.
        policy: What to overlook.
        runner: Where algebra runs; this process's sandbox for it, if not given.
    """
    begin = time.perf_counter()
    texts = str(gold), str(answer)
    if not texts[0].strip():
        reason = "undecided: the gold can't be read: it is empty"
        return Verdict(None, reason, time.perf_counter() - begin)
    said = _plain(bare(texts[0]), bare(texts[1]), policy)
    correct, tier, reason = said or _read(*texts, policy, timeout, runner)
    return Verdict(correct, reason, time.perf_counter() - begin, tier)


def is_number(gold: object, text: str) -> bool:
    """Whether a text, in which an answer stands, is graded in no time: it is short and a number.

    A text without an answer is so as well. Where the gold is no number, none is.
    """
    if len(text) > SHORT or parse_number(str(gold)) is None:
        return False
    answer = final_answer(text)
    return answer is None or parse_number(answer) is not None


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
    for part in _forms(form):
        if part.kind in _UNORDERED and many_unordered(part.parts):
            return f"{text[:80]!r} has over {MAX_MATCHED} parts in no order: they can't be matched"
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
    if _unread(forms[0]):
        return None, 1, f"undecided: the gold can't be read: {forms[0].name or 'it is empty'}"
    if _unread(forms[1]):
        return False, 1, f"the answer can't be read: {forms[1].name or 'it is empty'}"
    found = compare(*forms, policy)
    if found.outcome is not None:
        kinds = f"{forms[0].kind.value} against {forms[1].kind.value}"
        return found.outcome, 1, found.why or kinds
    if not policy.algebra or not found.pairs:
        return None, 1, "undecided: exact comparison can't tell"
    return _by_algebra(forms, found.pairs, policy, timeout, runner)


def _unread(form: Form) -> bool:
    return form.kind is Kind.OPAQUE and not form.text


def _by_algebra(
    forms: tuple[Form, Form],
    pairs: Sequence[Pair],
    policy: Policy,
    timeout: float,
    runner: Runner | None,
) -> Said:
    exact = _is_exact(forms[0])
    known = _too_large(pairs, exact)
    asked = [pair for pair in pairs if pair not in known]
    if asked:
        known |= zip(asked, ask(asked, timeout, exact, runner), strict=True)
    found = compare(*forms, policy, {pair: outcome for pair, (outcome, _) in known.items()})
    reasons = [reason for outcome, reason in known.values() if outcome is found.outcome]
    how = "undecided" if found.outcome is None else "algebra"
    reason = reasons[0] if reasons else found.why or "exact comparison can't tell"
    return found.outcome, 2 if asked else 1, f"{how}: {reason}"


def _too_large(pairs: Sequence[Pair], exact: bool) -> dict[Pair, Judged]:
    """What algebra isn't asked: the answer's fault, unless the gold is large and read by nobody."""
    whose = False if exact else None
    if len(pairs) > MAX_ASKED:
        return dict.fromkeys(pairs, (whose, f"over {MAX_ASKED} pairs of parts are for algebra"))
    known: dict[Pair, Judged] = {}
    for pair in pairs:
        large = next((text for text in pair if not is_small(text)), None)
        if large is not None:
            outcome = whose if large is pair[0] else False
            known[pair] = outcome, f"{large[:80]!r} is too large for algebra"
    return known


def _is_exact(gold: Form) -> bool:
    """Whether exact comparison reads all of a gold, and its variables have values."""
    for part in _leaves(gold):
        if part.kind is Kind.OPAQUE:
            return False
        valued = part.kind is Kind.EXPRESSION and part.expression
        if valued and same_at_points(valued, valued) is not True:
            return False
    return True


def _forms(form: Form) -> list[Form]:
    return [form, *(inner for part in form.parts for inner in _forms(part))]


def _leaves(form: Form) -> list[Form]:
    return [part for part in _forms(form) if not part.parts]
