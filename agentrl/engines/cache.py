"""Cache: which tokens' keys and values are held for whom, across the turns of a cohort.

In    the requests of a wave, in their fixed order
Out   a Run per request: what need not be computed again; what should be computed once for many
Not   correct under other weights: `forget` it when they change

A session's tokens lie in three runs: what all prompts begin with, what the members of its
group share, and its own. The first two are stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentrl.engines.bank import Bank, Shape
from agentrl.policy import Request

WORTH = 512
"""A common beginning gets a run of its own if that saves computing this many tokens."""
KEPT_BYTES = 1 << 28
"""Memory up to this stays for the next cohort; more is given back to the update."""

Ids = tuple[int, ...]


@dataclass(slots=True)
class Run:
    """What is held of one session."""

    tokens: Ids = ()
    """All tokens whose keys and values are held, from the first on."""
    common: int = 0
    """How many of them lie in the run of all."""
    group: int = 0
    """How many of them, after those, lie in the run of its group."""
    block: int = 0
    """Row of that run among the groups'."""
    row: int = -1
    """Row of its own run; -1 where it has none yet."""

    @property
    def own(self) -> int:
        """How many of its tokens lie in its own run."""
        return len(self.tokens) - self.common - self.group

    def crop(self, length: int) -> None:
        """Forget the tokens behind the first `length`."""
        self.tokens = self.tokens[:length]
        self.common = min(self.common, length)
        self.group = min(self.group, length - self.common)


@dataclass(frozen=True, slots=True)
class Shared:
    """What must be computed once, before the sessions' own tokens."""

    common: Ids = ()
    groups: tuple[Ids, ...] = ()
    """Of each group, the prompt behind the common beginning; its place is its block."""


class Cache:
    """Banks for the three runs, and who has what in them."""

    def __init__(self, shape: Shape) -> None:
        """An empty cache for a model of this shape."""
        self.shape = shape
        self.runs: dict[tuple[int, int], Run] = {}
        self._empty_banks()

    def forget(self) -> None:
        """Drop everything that is held."""
        self.runs = {}
        if self.common.bytes + self.groups.bytes + self.own.bytes > KEPT_BYTES:
            self._empty_banks()

    def admit(self, requests: Sequence[Request]) -> Shared:
        """Make `runs` what is held of these sessions, their rows the first ones.

        Sessions that are not in the wave are forgotten: they have ended.
        """
        held = {r.session: self.runs.get(r.session, Run()) for r in requests}
        for request in requests:
            run = held[request.session]
            # The last token is always computed: its hidden state gives the first draw.
            length = _agreement(run.tokens, request.prompt_ids[:-1])
            run.crop(length)
        if any(run.tokens for run in held.values()):
            self.runs, shared = held, Shared()
        else:
            self.runs, shared = _share(requests)
        self._settle()
        return shared

    def _settle(self) -> None:
        """Move runs into the first rows; those that lie there already stay."""
        count = len(self.runs)
        taken = {run.row for run in self.runs.values() if 0 <= run.row < count}
        free = (row for row in range(count) if row not in taken)
        source, target = [], []
        for run in self.runs.values():
            if 0 <= run.row < count:
                continue
            place = next(free)
            if run.row >= 0 and run.own > 0:
                source.append(run.row)
                target.append(place)
            run.row = place
        self.own.reserve(count, 1)
        self.own.move(source, target, max((run.own for run in self.runs.values()), default=0))

    def _empty_banks(self) -> None:
        self.common, self.groups, self.own = (Bank(self.shape) for _ in range(3))


def _share(requests: Sequence[Request]) -> tuple[dict[tuple[int, int], Run], Shared]:
    """Runs of sessions of which nothing is held, by what their prompts have in common."""
    members: dict[Ids, int] = {}
    for request in requests:
        members[request.prompt_ids] = members.get(request.prompt_ids, 0) + 1
    start = _beginning(members)
    blocks = {prompt: 0 for prompt, count in members.items() if count > 1}
    for block, prompt in enumerate(blocks):
        blocks[prompt] = block
    runs = {}
    for request in requests:
        prompt = request.prompt_ids
        if prompt in blocks:
            group = len(prompt) - start
            runs[request.session] = Run(prompt, start, group, blocks[prompt])
        else:
            runs[request.session] = Run(prompt[:start], start)
    common = requests[0].prompt_ids[:start]
    return runs, Shared(common, tuple(prompt[start:] for prompt in blocks))


def _beginning(prompts: Iterable[Ids]) -> int:
    """Length of what all prompts begin with, 0 where a run of its own is not worth it."""
    low, high = min(prompts), max(prompts)
    length = min(_agreement(low, high), min(map(len, prompts)) - 1)
    return length if length * (len(list(prompts)) - 1) >= WORTH else 0


def _agreement(left: Ids, right: Ids) -> int:
    """How many first tokens are the same."""
    short = min(len(left), len(right))
    if left[:short] == right[:short]:
        return short
    return next(i for i in range(short) if left[i] != right[i])
