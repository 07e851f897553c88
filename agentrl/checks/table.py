"""The checks, in the order that they are made in.

In    nothing
Out   CHECKS: name, what must hold, and what finds problems
Not   their running (run.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentrl.checks import again, episodes, gold, leaks, rewards, seeds, splits, toolwise
from agentrl.checks.bench import Bench
from agentrl.checks.report import Problem


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold."""

    name: str
    what: str
    find: Callable[[Bench], Iterator[Problem]]
    vital: bool = False
    """Where it fails, the others would say the same: they are left out."""


CHECKS = (
    Check("made", "it can be made", episodes.made, vital=True),
    Check("tasks", "a position always has the same task", splits.tasks, vital=True),
    Check("splits", "no content is in train and test", splits.splits),
    Check("scored", "whatever is said is scored", episodes.scored, vital=True),
    Check("gymnasium", "gymnasium's own check", episodes.gymnasium),
    Check("seeds", "the same seed gives the same episode", seeds.seeds),
    Check("randomness", "global random generators are left alone", seeds.randomness),
    Check("reference", "the reference solution is correct", rewards.reference),
    Check("wrong", "wrong and empty answers earn less", rewards.wrong),
    Check("told", "tools and their parameters are described", toolwise.told),
    Check("arguments", "odd arguments are answered in words", toolwise.arguments),
    Check("limits", "tools and episodes have limits", toolwise.limits),
    Check("leaks", "nothing is left behind", leaks.leaks),
    Check("gold", "the policy cannot read the gold answer", gold.gold),
    Check("tokens", "tokens and masks fit the template", episodes.tokens),
    Check("again", "another process finds the same tasks", again.again),
    Check("vector", "copies play side by side", again.vector),
)
