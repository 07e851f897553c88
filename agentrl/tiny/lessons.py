"""Batches that the tiny policy is taught with.

In    random tokens, or demonstrations by shares of habits
Out   Batch: ids padded on the right, and which of them are to be predicted
Not   test problems: every task comes from the train split
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from agentrl.message import Message
from agentrl.task import TaskSource
from agentrl.tiny.demonstrations import Subject, demonstrate, spoken
from agentrl.tiny.tokenizer import END, HEADER, PAD

POOL: Final = 16
"""Batches whose demonstrations are sorted by length together, so that little is padding."""
SHORTEST, LONGEST = 4, 28
"""Tokens of a row to be copied."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one step."""

    ids: Tensor
    """int64 [rows, time]."""
    taught: Tensor
    """bool [rows, time]: the tokens that enter the loss."""
    shared: int = 0
    """Tokens at the start that are equal in all rows."""


@dataclass(frozen=True)
class Classroom:
    """What all demonstrations of an environment have in common."""

    subject: Subject
    tokenizer: PreTrainedTokenizerFast
    system: str
    tools: Sequence[Mapping[str, Any]]
    tasks: TaskSource

    def demonstrate(self, index: int, habits: Mapping[str, float], rng: np.random.Generator) -> str:
        """The text of a train problem played by a habit drawn with the given shares."""
        task = self.tasks[index]
        return self.text(demonstrate(self.subject, task, self.system, habits, rng))

    def text(self, messages: Sequence[Message]) -> str:
        """A whole conversation as the template has it."""
        turns: Any = list(messages)
        tools: Any = list(self.tools)
        return str(self.tokenizer.apply_chat_template(turns, tools=tools, tokenize=False))

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a whole conversation."""
        return self.ids(self.text(messages))

    def ids(self, text: str) -> list[int]:
        """Token ids of a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    @cached_property
    def shared(self) -> int:
        """Tokens before the user's first word: all conversations begin with them."""
        opening = Message(role="system", content=self.system)
        pair = [self.encode([opening, Message(role="user", content=c)]) for c in ("1", "a")]
        return next(i for i, (a, b) in enumerate(zip(*pair, strict=False)) if a != b)


def copies(tokenizer: PreTrainedTokenizerFast, rows: int, seed: Sequence[int]) -> Iterator[Batch]:
    """Random rows said twice; each row has its own share of digits.

    A row that is unlike any text teaches nothing but to look for what stood there before.
    """
    rng = np.random.default_rng(seed)
    size = len(tokenizer)
    digits = np.array(tokenizer.convert_tokens_to_ids(list("0123456789")))
    end = np.full((rows, 1), tokenizer.eos_token_id)
    while True:
        length = int(rng.integers(SHORTEST, LONGEST + 1))
        shape = (rows, length)
        is_digit = rng.uniform(size=shape) < rng.uniform(size=(rows, 1))
        row = np.where(
            is_digit, digits[rng.integers(10, size=shape)], rng.integers(size, size=shape)
        )
        ids = torch.from_numpy(np.concatenate([end, row, end, row, end], axis=1))
        taught = torch.zeros_like(ids, dtype=torch.bool)
        taught[:, length + 2 :] = True
        yield Batch(ids, taught)


def lessons(
    room: Classroom, habits: Mapping[str, float], rows: int, seed: Sequence[int]
) -> Iterator[Batch]:
    """Demonstrations, each task once before any returns."""
    rng = np.random.default_rng(seed)
    header = room.tokenizer.encode(HEADER, add_special_tokens=False)
    while True:
        order = rng.permutation(len(room.tasks))
        for start in range(0, len(order) - rows * POOL + 1, rows * POOL):
            drawn = order[start : start + rows * POOL]
            said = sorted((room.ids(room.demonstrate(int(i), habits, rng)) for i in drawn), key=len)
            for i in rng.permutation(POOL):
                yield _pad(room, said[i * rows : (i + 1) * rows], header)


def _pad(room: Classroom, said: list[list[int]], header: list[int]) -> Batch:
    shape = len(said), max(map(len, said))
    end, pad = room.tokenizer.encode(END + PAD, add_special_tokens=False)
    ids = torch.full(shape, pad)
    taught = torch.zeros(shape, dtype=torch.bool)
    for row, tokens in enumerate(said):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        taught[row, : len(tokens)] = torch.tensor(spoken(tokens, header, end))
    return Batch(ids, taught, room.shared)
