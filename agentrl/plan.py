"""Plan: which rows share a micro-batch, and which rank computes it.

In    lengths of the rows to train on, a hard cap on the tokens of one micro-batch, ranks
Out   for each rank equally many micro-batches; together they hold every row once
Not   shorter or split rows: a row above the cap is refused, not cut
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Bin = list[int]
"""Rows that share a micro-batch."""
Prompt = tuple[int, int]
"""Which prompt a row begins with, and its tokens."""
Measure = Callable[[Sequence[int]], float]
"""Of the rows of a micro-batch: its tokens, or its seconds on some scale."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows that go forward and backward together."""

    rows: tuple[int, ...]
    """Positions in the planned sequence, longest first; none: a dummy, so that ranks keep step."""
    tokens: int
    """What memory and time pay for: their sum when packed, rows times the longest when padded."""


Shares = tuple[tuple[MicroBatch, ...], ...]
"""The micro-batches of each rank; every rank has as many."""


def plan(
    lengths: Sequence[int],
    cap: int,
    *,
    ranks: int = 1,
    packed: bool = True,
    cost: Callable[[int], float] = float,
    prompts: Sequence[Prompt] = (),
) -> Shares:
    """Lay rows in few micro-batches of at most `cap` tokens, shared out evenly over ranks.

    The widest micro-batch of a rank comes first, so that a step that does not fit in memory
    says so at once, and later ones reuse the memory of earlier ones.

    Args:
        lengths: Tokens of each row.
        cap: Most tokens of one micro-batch, padding included.
        ranks: Processes that share the rows; each gets as many micro-batches.
        packed: Rows are laid one after the other; else padded to the longest beside them.
        cost: What a row of this length costs to compute; ranks are balanced by it.
        prompts: Of each packed row; a micro-batch holds the prompt of several rows once.

    Raises:
        ValueError: a row is empty or above the cap.
    """
    _refuse(lengths, cap, ranks)
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    prompts = prompts or [(row, 0) for row in range(len(lengths))]
    width = _width(lengths, packed, prompts)
    if packed:
        bins = _first_fit(_by_prompt(order, lengths, prompts), lengths, cap, prompts)
    else:
        bins = _neighbours(order, width, cap)
    if ranks == 1:
        shares = [bins]
    else:
        load = _load(lengths, cost, packed)
        shares = _deal(bins, ranks, load)
        _level(shares, load, lambda rows: width(rows) <= cap, len(lengths))
    return tuple(_finished(share, order, width) for share in shares)


def widest(shares: Sequence[Sequence[MicroBatch]]) -> int:
    """Tokens of the widest micro-batch; 0 where there is none."""
    return max((batch.tokens for share in shares for batch in share), default=0)


def _refuse(lengths: Sequence[int], cap: int, ranks: int) -> None:
    if cap < 1 or ranks < 1:
        raise ValueError(f"cap {cap}, {ranks} ranks: both are at least 1.")
    for row, length in enumerate(lengths):
        if length < 1:
            raise ValueError(f"row {row} is empty.")
        if length > cap:
            raise ValueError(f"row {row} has {length} tokens, above the cap of {cap}.")


def _width(
    lengths: Sequence[int], packed: bool, prompts: Sequence[Prompt]
) -> Callable[[Sequence[int]], int]:
    if not packed:
        return lambda rows: len(rows) * max((lengths[row] for row in rows), default=0)

    def width(rows: Sequence[int]) -> int:
        own = sum(lengths[row] - prompts[row][1] for row in rows)
        return own + sum(dict(prompts[row] for row in rows).values())

    return width


def _load(lengths: Sequence[int], cost: Callable[[int], float], packed: bool) -> Measure:
    each = [cost(length) for length in lengths]
    if packed:
        return lambda rows: sum(each[row] for row in rows)
    return lambda rows: len(rows) * max((each[row] for row in rows), default=0.0)


def _by_prompt(
    order: Sequence[int], lengths: Sequence[int], prompts: Sequence[Prompt]
) -> list[int]:
    """Rows of one prompt after each other, those that need most together first."""
    need: dict[int, int] = {}
    for row in order:
        which, tokens = prompts[row]
        need[which] = need.get(which, tokens) + lengths[row] - tokens
    return sorted(order, key=lambda row: (-need[prompts[row][0]], prompts[row][0]))


def _first_fit(
    queue: Sequence[int], lengths: Sequence[int], cap: int, prompts: Sequence[Prompt]
) -> list[Bin]:
    """Each row goes to the first micro-batch that has room, and its prompt if one has."""
    bins: list[Bin] = []
    room: list[int] = []
    held: list[set[int]] = []
    for row in queue:
        which, prompt = prompts[row]
        needs = [lengths[row] - prompt * (which in own) for own in held]
        at = min(
            (i for i, n in enumerate(needs) if n <= room[i]), key=needs.__getitem__, default=-1
        )
        if at < 0:
            bins.append([row])
            room.append(cap - lengths[row])
            held.append({which})
        else:
            bins[at].append(row)
            room[at] -= needs[at]
            held[at].add(which)
    return bins


def _neighbours(order: Sequence[int], width: Measure, cap: int) -> list[Bin]:
    """Rows next to each other by length share a micro-batch: little padding."""
    bins: list[Bin] = []
    for row in order:
        if bins and width([*bins[-1], row]) <= cap:
            bins[-1].append(row)
        else:
            bins.append([row])
    return bins


def _deal(bins: Sequence[Bin], ranks: int, load: Measure) -> list[list[Bin]]:
    """Costliest first, to the rank with the least so far that still lacks micro-batches."""
    each = -(-len(bins) // ranks)
    shares: list[list[Bin]] = [[] for _ in range(ranks)]
    total = [0.0] * ranks
    for rows in sorted(bins, key=lambda rows: (-load(rows), rows)):
        rank = min((r for r in range(ranks) if len(shares[r]) < each), key=total.__getitem__)
        shares[rank].append(list(rows))
        total[rank] += load(rows)
    for share in shares:
        share.extend([] for _ in range(each - len(share)))
    return shares


def _level(
    shares: Sequence[list[Bin]], load: Measure, fits: Callable[[Bin], bool], most: int
) -> None:
    """Move single rows from the costliest rank to the cheapest while that helps, `most` times."""
    for _ in range(most):
        total = [sum(map(load, share)) for share in shares]
        heavy, light = total.index(max(total)), total.index(min(total))
        best = total[heavy]
        move: tuple[Bin, int, Bin] | None = None
        for source in shares[heavy]:
            for row in source:
                rest = total[heavy] - load(source) + load([r for r in source if r != row])
                for target in shares[light]:
                    joined = [*target, row]
                    worse = max(rest, total[light] - load(target) + load(joined))
                    if worse < best and fits(joined):
                        best, move = worse, (source, row, target)
        if move is None:
            return
        source, row, target = move
        source.remove(row)
        target.append(row)


def _finished(
    share: Sequence[Bin], order: Sequence[int], width: Callable[[Sequence[int]], int]
) -> tuple[MicroBatch, ...]:
    place = {row: i for i, row in enumerate(order)}
    ready = (MicroBatch(tuple(sorted(rows, key=place.__getitem__)), width(rows)) for rows in share)
    return tuple(sorted(ready, key=lambda batch: -batch.tokens))
