"""Why a trajectory is trained on or not: what it is worth, what it costs, and by how much.

In    rewards and costs of one group as they were compared, which were kept, the price of a token
Out   Why, one a trajectory: value, cost, margin, the rival, and a sentence
Not   the choice itself: that is recorded, and here only explained (docs/selection.md, section 1)

Value is what a row adds to Q, the sum of squared deviations of the kept rewards. The margin is
what Q less the price of tokens would lose if this one row were decided otherwise: left out or
exchanged if it is kept, added or exchanged if it is not. Below 0 another decision would have been
better for this row alone; a lot among equal rewards, a budget that must be met by whole rows, or
another rule than max_variance can do that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentrl.selection.objective import EPSILONS, Floats, Ints, Mask, is_flat

RULES = {
    "all": "Rule all keeps every trajectory of a task that has contrast.",
    "random": "Rule random keeps any {m}, whatever they earned.",
    "max_reward": "Rule max_reward keeps the {m} highest rewards.",
    "first": "Rule first keeps the {m} that were played first.",
    "percentile": "Rule percentile keeps {m} evenly spaced ranks of the rewards.",
}
"""What the other rules go by; max_variance is told by its numbers."""
MOST = 2048
"""Rows of a group whose margins are found; each is compared with every other."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What held for every row of the step."""

    rule: str = "max_variance"
    m: int | None = None
    """Most rows of a group; None where nothing says."""
    price: float = 0.0
    """Squared reward that a token more would bring."""
    drawn: bool = True
    """Whether a lot decides among equal rewards; else the cheapest are kept."""
    left: int | None = None
    """Tokens of the budget that nothing was kept for; None without a budget."""


@dataclass(frozen=True, slots=True)
class Why:
    """One decision."""

    said: str
    value: float | None = None
    """What it adds to Q, or would add."""
    cost: float | None = None
    """Its tokens at the price of a token."""
    margin: float | None = None
    rival: int | None = None
    """Position of the row that would take its place, or give its own up, in the best exchange."""


def whys(
    rewards: Sequence[float | None],
    costs: Sequence[int],
    kept: Sequence[bool],
    out: Mapping[int, str],
    terms: Terms,
    note: str = "",
) -> list[Why]:
    """Explain every row of a group.

    Args:
        rewards: As they were compared; None where they could not be.
        costs: What each counts against a budget.
        kept: What the run trained on.
        out: Position to the reason why a row was out before the choice.
        terms: What held for the step.
        note: What the selection says of the whole group.
    """
    usable = [i for i, r in enumerate(rewards) if r is not None and i not in out]
    known = np.array([rewards[i] for i in usable], dtype=np.float64)
    keeps = np.array([kept[i] for i in usable], dtype=bool)
    group = _Rows(known, np.array([costs[i] for i in usable]), keeps, terms)
    found = [Why(f"Left out before the choice: {_reason(i, out)}.") for i in range(len(rewards))]
    for at, i in enumerate(usable):
        if keeps.any():
            found[i] = _why(group, at, usable)
        elif is_flat(known):
            found[i] = Why(_FLAT if len(usable) > 1 else _ALONE)
        else:
            found[i] = _starved(group, at, usable, note)
    return found


def _reason(row: int, out: Mapping[int, str]) -> str:
    return out.get(row, "it has no reward").rstrip(".")


_FLAT = (
    "Not kept: all rewards of this task are alike. Nothing tells a better attempt from a worse "
    "one, so nothing of it is trained on."
)
_ALONE = "Not kept: no other trajectory of this task could be compared with it."


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The usable rows of a group, of which some are kept."""

    rewards: Floats
    costs: Ints
    keeps: Mask
    terms: Terms

    @property
    def size(self) -> int:
        """Kept rows."""
        return int(self.keeps.sum())

    @property
    def mean(self) -> float:
        """Reward of the kept ones."""
        return float(self.rewards[self.keeps].mean())

    def value(self, row: int) -> float:
        """Identities (4) and (5) of docs/selection.md."""
        s, kept = self.size, bool(self.keeps[row])
        if kept and s == 1:
            return 0.0
        factor = s / (s - 1) if kept else s / (s + 1)
        return factor * (float(self.rewards[row]) - self.mean) ** 2

    def cost(self, row: int) -> float:
        return self.terms.price * float(self.costs[row])

    def alike(self, row: int) -> Mask:
        """Rows of the same reward."""
        near = EPSILONS * np.maximum(np.abs(self.rewards), abs(self.rewards[row]))
        found: Mask = np.abs(self.rewards - self.rewards[row]) <= near
        return found

    def margin(self, row: int) -> tuple[float | None, int | None]:
        """What the best other decision would lose, and with whom it exchanges."""
        if self.rewards.size > MOST:
            return None, None
        kept = bool(self.keeps[row])
        free = self.terms.m is None or self.size < self.terms.m
        alone = self.cost(row) - self.value(row) if kept else self.value(row) - self.cost(row)
        gain, rival = (alone, None) if kept or free else (-math.inf, None)
        others = np.flatnonzero((self.keeps != kept) & ~self.alike(row))
        if others.size:
            gains = self._exchanges(row, others)
            best = int(gains.argmax())
            if gains[best] > gain:
                gain, rival = float(gains[best]), int(others[best])
        if gain == -math.inf:
            return None, None
        return (-gain if kept else gain) + 0.0, rival

    def _exchanges(self, row: int, others: Ints) -> Floats:
        """What is gained by exchanging a row with each of the others, by identity (7)."""
        gone, come = (row, others) if self.keeps[row] else (others, row)
        y, x = self.rewards[gone], self.rewards[come]
        change = (x - self.mean) ** 2 - (y - self.mean) ** 2 - (x - y) ** 2 / self.size
        found: Floats = change - self.terms.price * (self.costs[come] - self.costs[gone])
        return found


def _why(group: _Rows, row: int, places: Sequence[int]) -> Why:
    margin, rival = group.margin(row)
    equal = group.alike(row)
    split = 0 < int(group.keeps[equal].sum()) < int(equal.sum())
    words = [_place(group, row)]
    if group.terms.rule not in RULES:
        if split:
            words.append(_level(group, equal))
        if margin is not None and (group.keeps[row] or not split):
            words.append(_against(group, row, margin, rival))
        if margin is not None and margin > 0 and not group.keeps[row]:
            words.append(_room(group.terms, int(group.costs[row])))
        if margin is not None and margin < -EPSILONS and group.keeps[row] and group.terms.price:
            words.append(
                "A budget is spent in whole trajectories, so some cost more than they bring."
            )
    who = None if rival is None else places[rival]
    said = " ".join(word for word in words if word)
    return Why(said, group.value(row), group.cost(row), margin, who)


def _place(group: _Rows, row: int) -> str:
    head = "Kept" if group.keeps[row] else "Not kept"
    if group.terms.rule in RULES:
        return f"{head}. {RULES[group.terms.rule].format(m=group.terms.m)}"
    reward, mean = float(group.rewards[row]), group.mean
    where = f"{_short(abs(reward - mean))} {'above' if reward > mean else 'below'} the mean"
    if abs(reward - mean) <= EPSILONS * max(abs(reward), abs(mean)):
        where = "at the mean"
    return f"{head}: reward {_short(reward)} lies {where} of the {group.size} kept."


def _level(group: _Rows, equal: Mask) -> str:
    """Equal rewards are told apart by a lot, or by length."""
    kept, every = int(group.keeps[equal].sum()), int(equal.sum())
    by = "a lot decided which" if group.terms.drawn else "the cheapest are taken"
    return f"Of {every} with this reward {kept} {'are' if kept > 1 else 'is'} kept; {by}."


def _against(group: _Rows, row: int, margin: float, rival: int | None) -> str:
    """What the best other decision would do."""
    measure = "Q, less what the tokens cost," if group.terms.price else "Q"
    if group.keeps[row]:
        other = "Without it" if rival is None else "With the best other one instead"
        way = "fall" if margin >= 0 else "rise"
    else:
        other = "With it too" if rival is None else "In the best exchange for a kept one"
        way = "rise" if margin > 0 else "fall"
    return f"{other}, {measure} would {way} by {_short(abs(margin))}."


def _room(terms: Terms, tokens: int) -> str:
    """Why what would pay is not taken: rows are whole, and so is the budget."""
    if terms.left is None or tokens <= terms.left:
        return ""
    return f"The budget has {terms.left} left, which is too little for {tokens}."


def _starved(group: _Rows, row: int, places: Sequence[int], note: str) -> Why:
    """A group with contrast of which nothing is kept: its best pair is what would come first."""
    price = group.terms.price
    if price <= 0:
        return Why(f"Not kept: {(note or 'the run kept none of this task').rstrip('.')}.")
    values = (group.rewards - group.rewards[row]) ** 2 / 2
    margins = values - price * (group.costs + group.costs[row])
    margins[row] = -math.inf
    best = int(margins.argmax())
    tokens = int(group.costs[row] + group.costs[best])
    said = (
        f"Not kept, nor any other of this task: {note or 'its tokens bring more in other tasks'}. "
        f"The best pair with this one adds {_short(float(values[best]))} to Q and has {tokens} "
        f"tokens, which cost {_short(price * tokens)}. {_room(group.terms, tokens)}"
    ).rstrip()
    value, margin = float(values[best]), float(margins[best])
    return Why(said, value, price * tokens, margin, places[best])


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}", 1 if value < 0 else 0)
