"""The tiny policy's tokenizer: byte-level BPE, one token for each digit.

In    texts to learn words from, and the chat template of this folder
Out   a fast tokenizer that gives back any Unicode text
Not   compact elsewhere: what the texts lack may cost a token a byte
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agentrl.tiny import FOLDER

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
TAGS: Final = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
HEADER: Final = f"{START}assistant\n"
MAX_ENTRIES: Final = 1000
MAX_POSITIONS: Final = 32768
PIECES: Final = r"\d|\n| ?[^\s\d]+|\s"
"""What merges never cross: a digit, a newline, a run of letters and marks, a space."""


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learn merges from chat transcripts; equal texts give an equal tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    marks = re.compile("|".join(re.escape(mark) for mark in (START, END, PAD, *TAGS)))
    trainer = trainers.BpeTrainer(
        vocab_size=MAX_ENTRIES - len(TAGS),
        min_frequency=2,
        special_tokens=[START, END, PAD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    words = (part for text in texts for part in marks.split(text))
    tokenizer.train_from_iterator(words, trainer)
    # Not special: skipping special tokens must leave calls readable.
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = (FOLDER / "chat_template.jinja").read_text(encoding="utf-8")
    return fast
