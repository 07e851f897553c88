"""Prefix: rows that begin with the same prompt have it laid out, and computed, once.

In    the packed rows of one micro-batch, and how many tokens of each row are its prompt
Out   Shared: rows without repeated prompts, and an attention under which nothing else changes
Not   what rows share after their prompt, nor a prompt whose rows the plan has put apart

The first row of a prompt stands there whole. Later ones begin behind the prompt; their tokens
keep their positions and attend to the first row's prompt and to themselves. Its keys and values
stay in the graph, so the prompt's gradient is that of all its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from agentrl.errors import UsageError
from agentrl.head import TOLERANCE, TokenScores, head_of, score, token_logprobs
from agentrl.layout import Rows, lay_out
from agentrl.oom import is_oom
from agentrl.rowwise import attending, plain
from agentrl.sample import Sample

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "agentrl-prefix"
"""How transformers knows this attention."""

_NOT_HERE = ("softcap", "s_aux", "position_bias", "dropout", "sliding_window")

QUERIES = 512
"""So many at a time: a mask of a whole long row would take more memory than its keys."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is left of a row: tokens that attend to all of its prompt and, causally, to theirs."""

    own: slice
    prompt: slice
    """Of an earlier row; empty where the row is whole."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A packed micro-batch in which each prompt stands once."""

    rows: Rows
    positions: Tensor
    """[1, tokens] within the original row."""
    stretches: tuple[Stretch, ...]
    """One a row, in order."""

    def to(self, device: torch.device) -> Shared:
        """The same on another device."""
        positions = self.positions.to(device, non_blocking=True)
        return Shared(self.rows.to(device), positions, self.stretches)


def prompt_tokens(sample: Sample) -> int:
    """Tokens before the first that is trained; rows of one task have them in common."""
    return sample.loss_mask.index(1)


def prompts_of(samples: Sequence[Sample]) -> list[tuple[int, int]]:
    """Of each row, for a plan: which prompt it begins with, and that one's tokens."""
    known: dict[tuple[int, ...], int] = {}
    ends = [prompt_tokens(s) for s in samples]
    heads = [s.input_ids[:end] for s, end in zip(samples, ends, strict=True)]
    return [(known.setdefault(head, len(known)), len(head)) for head in heads]


def share(rows: Rows, prompts: Sequence[int]) -> Shared:
    """Lay each prompt out once. `prompts` holds its tokens for each of the packed rows."""
    ids, starts = rows.ids[0].tolist(), [0, *accumulate(rows.lengths[:-1])]
    homes: dict[tuple[int, ...], int] = {}
    stretches: list[Stretch] = []
    place: list[int] = []
    kept: list[int] = []
    positions: list[int] = []
    for first, length, prompt in zip(starts, rows.lengths, prompts, strict=True):
        key = tuple(ids[first : first + prompt])
        known = key in homes
        home = homes.setdefault(key, len(kept))
        skip = prompt if known else 0
        start = len(kept)
        kept += range(first + skip, first + length)
        positions += range(skip, length)
        place += [*range(home, home + skip), *range(start, len(kept))]
        stretches.append(Stretch(slice(start, len(kept)), slice(home, home + skip)))
    index = torch.tensor(kept, device=rows.ids.device)
    return Shared(
        rows=replace(rows, ids=rows.ids[:, index], at=torch.tensor(place).to(index)[rows.at]),
        positions=torch.tensor([positions], device=index.device),
        stretches=tuple(stretches),
    )


def sharing(model: PreTrainedModel) -> AbstractContextManager[None]:
    """Within, the model attends by stretches; activations recomputed in backward need it too."""
    return attending(model, NAME, _attention)


def score_shared(
    model: PreTrainedModel, shared: Shared, *, temperature: float = 1.0
) -> TokenScores:
    """Score labels, as `head.score` does."""
    with sharing(model):
        output = model.get_decoder()(
            input_ids=shared.rows.ids,
            position_ids=shared.positions,
            attention_mask=None,
            use_cache=False,
            stretches=shared.stretches,
        )
    picked = output.last_hidden_state[0].index_select(0, shared.rows.at)
    return token_logprobs(picked, head_of(model), shared.rows.labels, temperature=temperature)


@torch.no_grad()
def sharable(model: PreTrainedModel) -> str:
    """Why prompts of this model's rows can't be shared; "" where they can.

    Rows that share a prompt are compared with the same rows one by one, through the model's own
    attention. It must be able to pack rows to begin with.
    """
    draw = torch.Generator().manual_seed(0)
    weight = head_of(model).weight
    ids = torch.randint(weight.shape[0], (3, 19), generator=draw)
    ids[:, :7] = ids[0, :7]
    nan = float("nan")
    samples = [
        Sample(tuple(row[:n].tolist()), (0,) * 7 + (1,) * (n - 7), (nan,) * n, 0.0)
        for row, n in zip(ids, (12, 8, 19), strict=True)
    ]
    alone = []
    for sample in samples:
        rows = lay_out([sample], [1.0]).to(weight.device)
        alone.append(score(model, rows.ids, rows.at, rows.labels).logprobs)
    shared = share(lay_out(samples, [1.0] * 3, packed=True), [7] * 3).to(weight.device)
    try:
        found = score_shared(model, shared).logprobs
    except Exception as error:
        if is_oom(error):
            raise
        reason = str(error).partition("\n")[0].rstrip(".")
        return f"a shared prompt does not go through it: {type(error).__name__}: {reason}."
    gap = (found - torch.cat(alone)).abs().mean().item()
    if gap <= TOLERANCE.get(weight.dtype, TOLERANCE[torch.float32]):
        return ""
    return f"log-probs behind a shared prompt are {gap:.2g} nats off those of the same rows alone."


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    stretches: Sequence[Stretch],
    **options: Any,
) -> tuple[Tensor, None]:
    """[1, heads, tokens, size] in, [1, tokens, heads, size] out, as transformers has it."""
    odd = [name for name in _NOT_HERE if options.get(name)]
    if odd:
        raise UsageError(
            f"{type(module).__name__}: attention with {', '.join(odd)}. A shared prompt is "
            "computed with plain causal attention. Train without sharing prompts."
        )
    parts = []
    for at in stretches:
        # Else every row would keep keys and values of its prompt once more until backward.
        again = at.prompt.stop > at.prompt.start and torch.is_grad_enabled()
        attend = partial(checkpoint, _stretch, use_reentrant=False) if again else _stretch
        parts.append(attend(query, key, value, at, scaling))
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


def _stretch(query: Tensor, key: Tensor, value: Tensor, at: Stretch, scaling: float) -> Tensor:
    own, before = query[:, :, at.own], at.prompt.stop - at.prompt.start
    if not before:
        return plain(own, key[:, :, at.own], value[:, :, at.own], None, scaling)
    key, value = (torch.cat([x[:, :, at.prompt], x[:, :, at.own]], dim=2) for x in (key, value))
    parts = []
    for start in range(0, own.shape[2], QUERIES):
        some = own[:, :, start : start + QUERIES]
        seen = before + start + some.shape[2]
        mask = torch.ones(some.shape[2], seen, dtype=torch.bool, device=own.device)
        mask = mask.tril(before + start)
        parts.append(plain(some, key[:, :, :seen], value[:, :, :seen], mask, scaling))
    return torch.cat(parts, dim=2)
