"""Cache: which tokens' keys and values are held for whom, across turns.

In    requests, in an order that the caller chose
Out   a Run per request: what need not be computed again; what should be computed once for many
Not   correct under other weights: `forget` it, or `outdate` it while some are being answered

A session's tokens lie in three runs: what all prompts begin with, what the members of its
group share, and its own. The first two are stored once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from agentrl.engines.bank import KEPT_BYTES, Bank, Shape, Spot, row_tokens
from agentrl.policy import Request

WORTH = 512
"""A common beginning gets a run of its own if that saves computing this many tokens."""

TASKS = 16
"""Groups for whose prompts there is room in one slab, where they come one by one."""

Ids = tuple[int, ...]
Session = tuple[int, int]


@dataclass(slots=True, eq=False)
class Block:
    """A run that several sessions share."""

    ids: Ids
    """All tokens up to its end."""
    common: int
    """How many of them lie in the run of all."""
    spot: Spot
    users: int = 0
    outdated: bool = False
    """Computed with other weights: those who use it may end their turns, and no one else."""
    end: Tensor | None = None
    """Hidden state of its last token, once computed: whoever's prompt it is draws from that."""


@dataclass(slots=True, eq=False)
class Run:
    """What is held of one session."""

    tokens: Ids = ()
    """All tokens whose keys and values are held, from the first on."""
    common: int = 0
    """How many of them lie in the run of all."""
    group: int = 0
    """How many of them, after those, lie in the run of its group."""
    start: Block | None = None
    """The run of all, where it uses that."""
    block: Block | None = None
    """The run of its group, where it uses that."""
    spot: Spot | None = None
    """Where its own run lies."""
    outdated: bool = False
    """Some of it was computed with other weights: it serves this turn and no other."""

    @property
    def own(self) -> int:
        """How many of its tokens lie in its own run."""
        return len(self.tokens) - self.common - self.group

    def crop(self, length: int) -> None:
        """Forget the tokens behind the first `length`."""
        if length < len(self.tokens):
            self.tokens = self.tokens[:length]
        self.common = min(self.common, length)
        self.group = min(self.group, length - self.common)


@dataclass(frozen=True, slots=True)
class Reading:
    """Tokens to be computed into a run's row."""

    run: Run
    ids: Ids


@dataclass(frozen=True, slots=True)
class Shared:
    """What must be computed once, before the sessions' own tokens."""

    common: tuple[Reading, ...] = ()
    blocks: tuple[Reading, ...] = ()
    new: tuple[Block, ...] = ()
    """Those whose readings these are, in that order."""


class Cache:
    """Banks for the three runs, and who has what in them."""

    def __init__(self, shape: Shape, limit: int) -> None:
        """An empty cache for a model of this shape, to hold about `limit` bytes."""
        self.shape = shape
        self.limit = limit
        self.runs: dict[Session, Run] = {}
        """In the order in which they were last asked for."""
        self.own = Bank(shape)
        self.common, self.groups = (Bank(shape, KEPT_BYTES // 8) for _ in range(2))
        self.expected = 0
        """Sessions that will come one by one; 0: those of a wave come together."""
        self.start: Block | None = None
        """What all prompts begin with."""
        self.peak = 0
        """Most bytes that were set aside so far."""
        self._blocks: dict[Ids, Block] = {}
        self._seen: set[Ids] = set()

    @property
    def bytes(self) -> int:
        """Memory that is set aside."""
        return self.common.bytes + self.groups.bytes + self.own.bytes

    def forget(self) -> None:
        """Drop everything that is held."""
        self.runs, self._blocks, self._seen, self.start = {}, {}, set(), None
        for bank in (self.common, self.groups, self.own):
            bank.clear()

    def drop(self, session: Session) -> None:
        """Forget a session, and what it alone still shared."""
        run = self.runs.pop(session, None)
        if run is None:
            return
        self._leave(run)
        if run.spot is not None:
            self.own.give(run.spot)
        if not self.runs:
            self.forget()

    def retain(self, sessions: Collection[Session]) -> None:
        """Forget all others."""
        for session in [s for s in self.runs if s not in sessions]:
            self.drop(session)

    def outdate(self, answered: Collection[Session]) -> None:
        """The weights changed: only those that are being answered keep what they have."""
        self.retain(answered)
        self._blocks, self._seen = {}, set()
        for run in self.runs.values():
            run.outdated = True
            if run.block is not None:
                run.block.outdated = True
        if self.start is not None:
            self.start.outdated = True
            self._end_start()

    def admit(self, requests: Sequence[Request]) -> Shared:
        """Make `runs` what is held of these sessions, with room for their answers."""
        fresh = []
        for request in requests:
            run = self.runs.pop(request.session, None) or Run()
            self.runs[request.session] = run
            # The last token is always computed: its hidden state gives the first draw.
            run.crop(_agreement(run.tokens, request.prompt_ids, len(request.prompt_ids) - 1))
            if not run.tokens:
                self._leave(run)
                fresh.append(request)
        shared = self._share(fresh) if fresh else Shared()
        self._settle(requests)
        self.peak = max(self.peak, self.bytes)
        return shared

    def fitting(self, requests: Sequence[Request], beside: Collection[Session]) -> int:
        """How many of the first requests have room, at least one where nobody is answered.

        Idle runs make way for them, those last that were asked for first: where sessions come
        round in a fixed order, that loses the fewest.
        """
        shared = self.common.bytes + self.groups.bytes
        taken = shared + sum(self._bytes(self.runs[s]) for s in beside)
        count = 0
        told: Counter[Ids] = Counter()
        for request in requests:
            taken += self._need(request, told) * self.shape.bytes_per_token
            if taken > self.limit and (count or beside):
                break
            count += 1
        self._make_room(requests[:count], beside)
        return count

    def _make_room(self, requests: Sequence[Request], beside: Collection[Session]) -> None:
        kept = {r.session for r in requests} | set(beside)
        idle = [session for session in self.runs if session not in kept]
        told: Counter[Ids] = Counter()
        wanted = [need for r in requests if (need := self._need(r, told, grown=True))]
        while idle and self.bytes + self.own.cost(wanted) > self.limit:
            self.drop(idle.pop())

    def _need(self, request: Request, told: Counter[Ids], *, grown: bool = False) -> int:
        """Tokens of the row that a request will have; only if it is a new one where `grown`."""
        run = self.runs.get(request.session)
        prompt = request.prompt_ids
        if run is not None and run.tokens:
            length = len(prompt) - run.common - run.group
        else:
            told[prompt] += 1
            length = len(prompt) if told[prompt] == 1 else 0
        need = length + request.max_tokens
        if run is None or run.spot is None:
            return row_tokens(self._ahead(need))
        size, held = row_tokens(need), run.spot.slab.tokens
        return max(size, held) if not grown else size * (size > held)

    def _bytes(self, run: Run) -> int:
        return 0 if run.spot is None else run.spot.slab.tokens * self.shape.bytes_per_token

    def _share(self, fresh: Sequence[Request]) -> Shared:
        """Give sessions of which nothing is held what others have in common with them."""
        counts = Counter(request.prompt_ids for request in fresh)
        common = self._begin(counts)
        more = self.expected > len(fresh)
        new = [
            prompt
            for prompt, count in counts.items()
            if prompt not in self._blocks and (more or count > 1 or prompt in self._seen)
        ]
        self._seen.update(counts)
        readings = self._add_blocks(new)
        for request in fresh:
            self._attach(self.runs[request.session], request.prompt_ids)
        return Shared(common, readings, tuple(self._blocks[prompt] for prompt in new))

    def _begin(self, counts: Counter[Ids]) -> tuple[Reading, ...]:
        """A run for what all prompts begin with, where there is none yet and it is worth it."""
        length = 0 if self.start is not None else _beginning(counts)
        if not length:
            return ()
        ids = next(iter(counts))[:length]
        self.start = Block(ids, 0, self.common.take([length])[0])
        return (Reading(Run(spot=self.start.spot), ids),)

    def _add_blocks(self, prompts: Sequence[Ids]) -> tuple[Reading, ...]:
        starts = [self._common_with(prompt) for prompt in prompts]
        lengths = [len(p) - start for p, start in zip(prompts, starts, strict=True)]
        # All as long as the longest, so that they lie together and are read together.
        longest = max(lengths, default=0)
        # Longer rows that are there are better than a slab more: that is a product in every layer.
        there = [
            slab.tokens
            for slab in self.groups.slabs
            if slab.tokens >= longest and len(slab.free) >= len(prompts)
        ]
        needs = [min(there, default=longest)] * len(prompts)
        spots = self.groups.take(needs, self._room(), min(self.expected, TASKS))
        for prompt, start, spot in zip(prompts, starts, spots, strict=True):
            self._blocks[prompt] = Block(prompt, start, spot)
        return tuple(
            Reading(Run(prompt[:start], start, spot=spot), prompt[start:])
            for prompt, start, spot in zip(prompts, starts, spots, strict=True)
        )

    def _attach(self, run: Run, prompt: Ids) -> None:
        block = self._blocks.get(prompt)
        if block is None:
            run.common = self._common_with(prompt)
            run.tokens = prompt[: run.common]
        else:
            run.tokens, run.common, run.block = prompt, block.common, block
            run.group = len(prompt) - block.common
            block.users += 1
        if run.common and self.start is not None:
            run.start = self.start
            self.start.users += 1

    def _common_with(self, prompt: Ids) -> int:
        if self.start is None or self.start.outdated:
            return 0
        return _agreement(self.start.ids, prompt, len(prompt) - 1)

    def _leave(self, run: Run) -> None:
        """A run shares nothing any more."""
        start, block = run.start, run.block
        run.start = run.block = None
        run.common = run.group = 0
        if start is not None:
            start.users -= 1
            self._end_start()
        if block is not None:
            block.users -= 1
            if not block.users:
                self.groups.give(block.spot)
                if not block.outdated:
                    del self._blocks[block.ids]

    def _end_start(self) -> None:
        if self.start is not None and self.start.outdated and not self.start.users:
            self.common.give(self.start.spot)
            self.start = None

    def _ahead(self, need: int) -> int:
        """Where sessions come one by one, a new row has room for the next turn too."""
        return need + need // 4 if self.expected else need

    def _room(self) -> int:
        """Bytes for rows ahead of time: half of what is left, as other lengths will come too."""
        return (self.limit - self.bytes) // 2

    def _settle(self, requests: Sequence[Request]) -> None:
        """A row for each run, with room for its whole answer; one that is too short is left."""
        moving: list[tuple[Run, int]] = []
        for request in requests:
            run = self.runs[request.session]
            need = len(request.prompt_ids) + request.max_tokens - run.common - run.group
            if run.spot is None:
                moving.append((run, self._ahead(need)))
            elif run.spot.slab.tokens < need:
                moving.append((run, need))
        spots = self.own.take([need for _, need in moving], self._room(), self.expected)
        for (run, _), spot in zip(moving, spots, strict=True):
            old, run.spot = run.spot, spot
            if old is not None:
                if run.own > 0:
                    held = old.slab.data[:, :, old.row, :, : run.own]
                    spot.slab.data[:, :, spot.row, :, : run.own] = held
                self.own.give(old)


def _beginning(prompts: Iterable[Ids]) -> int:
    """Length of what all prompts begin with, 0 where a run of its own is not worth it."""
    low, high = min(prompts), max(prompts)
    length = _agreement(low, high, min(map(len, prompts)) - 1)
    return length if length * (len(list(prompts)) - 1) >= WORTH else 0


def _agreement(left: Ids, right: Ids, most: int) -> int:
    """How many first tokens are the same, up to so many."""
    short = max(0, min(len(left), len(right), most))
    if left[:short] == right[:short]:
        return short
    return next(i for i in range(short) if left[i] != right[i])
