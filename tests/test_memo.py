"""A memo gives what it gave before, makes the rest, and forgets what was asked for longest ago."""

from __future__ import annotations

import pytest

from agentrl.memo import Memo


def test_the_same_key_is_made_once_until_it_is_the_oldest_of_too_many() -> None:
    memo, made = Memo[str](2), list[str]()

    def ask(key: str) -> str:
        return memo.of(key, lambda: made.append(key) or key.upper())

    assert [ask(key) for key in "abacb"] == ["A", "B", "A", "C", "B"]
    assert made == ["a", "b", "c", "b"]


def test_what_cannot_be_made_is_told_each_time_and_nothing_is_kept() -> None:
    memo = Memo[int](2)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            memo.of("x", lambda: 1 // 0)
    assert memo.of("x", lambda: 1) == 1
