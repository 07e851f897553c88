"""Small tokenizers with the marks of each family, and templates in its published format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TEMPLATES = Path(__file__).parent / "data" / "templates"


@dataclass(frozen=True)
class Family:
    """A template, the control tokens its models have, and the format its calls have."""

    format: str
    special: tuple[str, ...]
    eos: str
    bos: str | None = None
    plain: tuple[str, ...] = ()
    """Marks that are one token and yet no control token."""


def deepseek_mark(words: str) -> str:
    """A mark between full-width bars, its spaces written as that family does."""
    return f"<\uff5c{words.replace(' ', chr(0x2581))}\uff5c>"


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_THINK = ("<think>", "</think>")
_LLAMA = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|eom_id|>", "<|eot_id|>", "<|python_tag|>"),
)
_MISTRAL = (
    *("<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    *("[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
)
_DEEPSEEK = tuple(
    deepseek_mark(words) for words in ("begin of sentence", "end of sentence", "User", "Assistant")
)
_DEEPSEEK_CALLS = (
    deepseek_mark("tool sep"),
    *(
        deepseek_mark(f"tool {what} {side}")
        for what in ("calls", "call", "outputs", "output")
        for side in ("begin", "end")
    ),
)
_HARMONY = (
    *("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>"),
    *("<|start|>", "<|end|>", "<|message|>", "<|call|>"),
)

FAMILIES = {
    "qwen3": Family("hermes", _CHATML, "<|im_end|>", plain=(*_TAGS, *_THINK)),
    "qwen3_coder": Family("qwen3_coder", _CHATML, "<|im_end|>", plain=_TAGS),
    "llama3": Family("llama3_json", _LLAMA, "<|eot_id|>", "<|begin_of_text|>"),
    "mistral_v3": Family("mistral", _MISTRAL, "</s>", "<s>"),
    "mistral_v11": Family("mistral_args", _MISTRAL, "</s>", "<s>"),
    "mistral_v13": Family("mistral_args", _MISTRAL, "</s>", "<s>"),
    "deepseek_v3": Family("deepseek_v3", _DEEPSEEK, _DEEPSEEK[1], _DEEPSEEK[0], _DEEPSEEK_CALLS),
    "deepseek_r1": Family("deepseek_v3", _DEEPSEEK, _DEEPSEEK[1], _DEEPSEEK[0], _DEEPSEEK_CALLS),
    "deepseek_v31": Family(
        "deepseek_v31", _DEEPSEEK, _DEEPSEEK[1], _DEEPSEEK[0], (*_DEEPSEEK_CALLS, *_THINK)
    ),
    "gpt_oss": Family("harmony", _HARMONY, "<|return|>"),
}


@cache
def tokenizer_of(name: str) -> PreTrainedTokenizerFast:
    """Bytes, a few merges, and the family's marks: small, and exact for any text."""
    family = FAMILIES[name]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "s"), ("Ġ", "t"), ("e", "r"), ("u", "s"), ("us", "er"), ("l", "o"), ("o", "k")]
    words = [*alphabet, *("".join(pair) for pair in merges)]
    vocab = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in family.special])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in family.plain])
    # As published: only a few of the control tokens have a role that the tokenizer knows.
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=family.eos,
        bos_token=family.bos,
        clean_up_tokenization_spaces=False,
    )
    fast.name_or_path = name
    fast.chat_template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    return fast


@contextmanager
def changed(name: str, old: str, new: str) -> Iterator[PreTrainedTokenizerFast]:
    """The family's tokenizer with another template."""
    tokenizer = tokenizer_of(name)
    template = tokenizer.chat_template
    assert old in template
    tokenizer.chat_template = template.replace(old, new)
    try:
        yield tokenizer
    finally:
        tokenizer.chat_template = template
