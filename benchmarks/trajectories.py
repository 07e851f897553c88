"""Made-up trajectories of a tool-using agent: lengths, masks and rewards; no words.

In    rows, a median length, a vocabulary, a seed
Out   samples of one group, the length of their common prompt, rewards
Not   text that means anything: time and memory of an update do not depend on values
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentrl.sample import Sample

SPREAD = 0.8
"""Of the logarithm of a length; what multi-turn tool use shows."""
TOOLS = 0.6
"""Share of all tokens that tools have written: forwarded, not trained."""
TURNS = 3
"""A tool answers between two of them."""


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The rows of one group."""

    samples: tuple[Sample, ...]
    rewards: tuple[float, ...]
    prompt: int
    """Tokens before the first sampled one, the same ones in every row."""

    @property
    def lengths(self) -> list[int]:
        """Tokens of each row."""
        return [len(s.input_ids) for s in self.samples]

    @property
    def trained(self) -> int:
        """Sampled tokens of all rows."""
        return sum(sum(s.loss_mask) for s in self.samples)

    def only(self, kept: Sequence[int]) -> Rollouts:
        """Some of the rows, with advantages among themselves."""
        rows = [self.samples[i] for i in kept]
        rewards = [self.rewards[i] for i in kept]
        return Rollouts(_rated(rows, rewards), tuple(rewards), self.prompt)


def rollouts(rng: np.random.Generator, n: int, median: int, vocabulary: int) -> Rollouts:
    """One group of n rows: lognormal lengths, rewards 0, 0.5 or 1."""
    prompt = max(4, median // 8)
    drawn = median * np.exp(SPREAD * rng.standard_normal(n))
    lengths = np.clip(drawn, 5 * prompt // 2, 8 * median).astype(int)
    rows = [_row(rng, int(length), prompt, vocabulary) for length in lengths]
    task = rows[0].input_ids[:prompt]
    rows = [replace(row, input_ids=task + row.input_ids[prompt:]) for row in rows]
    rewards = rng.choice([0.0, 0.5, 1.0], n, p=[0.4, 0.2, 0.4]).tolist()
    return Rollouts(_rated(rows, rewards), tuple(rewards), prompt)


def typical(rng: np.random.Generator, n: int, median: int, vocabulary: int) -> Rollouts:
    """Of 101 groups the one whose share of padding is the median."""
    drawn = [rollouts(rng, n, median, vocabulary) for _ in range(101)]
    return sorted(drawn, key=lambda r: max(r.lengths) * n / sum(r.lengths))[50]


def _row(rng: np.random.Generator, length: int, prompt: int, vocabulary: int) -> Sample:
    """Prompt, then turns with a tool's answer after each but the last."""
    tools = _parts(min(round(TOOLS * length), length - prompt - TURNS), TURNS - 1)
    turns = _parts(length - prompt - sum(tools), TURNS)
    mask = [0] * prompt
    for turn, tool in zip(turns, [*tools, 0], strict=True):
        mask += [1] * turn + [0] * tool
    ids = tuple(rng.integers(3, vocabulary, length).tolist())
    return Sample(ids, tuple(mask), (float("nan"),) * length, 0.0)


def _parts(whole: int, count: int) -> list[int]:
    return [whole // count + (i < whole % count) for i in range(count)]


def _rated(rows: Sequence[Sample], rewards: Sequence[float]) -> tuple[Sample, ...]:
    spread = np.std(rewards, ddof=1) + 1e-4
    scores = (np.asarray(rewards) - np.mean(rewards)) / spread
    return tuple(replace(r, advantage=float(a)) for r, a in zip(rows, scores, strict=True))
