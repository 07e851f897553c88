"""Effective tokens: what a sequence costs where attention is felt.

In    the length of a sequence, and the length at which attention costs as much as the rest
Out   a number of tokens to count against a budget
Not   a trajectory of several branches: add up what its branches cost
"""

from __future__ import annotations

from agentrl.errors import UsageError


def effective_tokens(tokens: int, l0: int) -> int:
    """L + L^2 / L0, rounded up: twice the tokens at L0, thrice at twice L0."""
    if tokens < 0 or l0 < 1:
        raise UsageError(
            f"effective_tokens: {tokens} tokens with l0 = {l0}. "
            "Give a length of at least 0 and an l0 of at least 1."
        )
    return tokens - (-tokens * tokens // l0)
