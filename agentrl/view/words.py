"""Tokens → the text of each, for showing log-probs where they were sampled.

In    a folder of weights with tokenizer.json
Out   a function from ids to pieces of text, or to #id where there is no tokenizer
Not   a text that was encoded: pieces of one character may be unreadable by themselves
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

Pieces = Callable[[Sequence[int]], list[str]]


def numbered(ids: Sequence[int]) -> list[str]:
    """The ids themselves."""
    return [f"#{i} " for i in ids]


def pieces_of(folders: Sequence[Path]) -> Pieces:
    """The first tokenizer there is, each token decoded once."""
    path = next((f / "tokenizer.json" for f in folders if (f / "tokenizer.json").is_file()), None)
    if path is None:
        return numbered
    from tokenizers import Tokenizer

    tokenizer, known = Tokenizer.from_file(str(path)), dict[int, str]()

    def piece(token: int) -> str:
        text = tokenizer.decode([token], skip_special_tokens=False)
        # Alone, a word that begins with a space is decoded without it.
        led = (tokenizer.id_to_token(token) or "").startswith("▁") and not text.startswith(" ")
        return f" {text}" if led else str(text)

    def pieces(ids: Sequence[int]) -> list[str]:
        for token in ids:
            if token not in known:
                known[token] = piece(token)
        return [known[token] for token in ids]

    return pieces
