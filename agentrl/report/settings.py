"""Settings of runs → those worth a line: given ones of a single run, different ones of several.

In    Facts
Out   a Table
Not   where a run was written and how it was shown; nor a secret, as far as words give it away
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.report.document import Table
from agentrl.report.facts import Facts
from agentrl.report.words import NONE

APART = ("run.",)
"""Settings that change nothing about what a run does."""
Clean = Callable[[str], str]


def table(every: Sequence[Facts], names: Sequence[str], clean: Clean) -> Table:
    """What was set, or what differs."""
    return _given(every[0], clean) if len(every) == 1 else _different(every, names, clean)


def _given(facts: Facts, clean: Clean) -> Table:
    rows = [
        (name, _shown(name, value, clean), facts.origin.get(name, NONE))
        for name, value in sorted(facts.settings.items())
        if facts.origin.get(name, "default") != "default" and not name.startswith(APART)
    ]
    caption = "Settings that were given; all others have their defaults."
    return Table(caption, ("setting", "value", "from"), tuple(rows))


def _different(every: Sequence[Facts], names: Sequence[str], clean: Clean) -> Table:
    known = sorted({name for facts in every for name in facts.settings})
    rows = []
    for name in known:
        values = [facts.settings.get(name, NONE) for facts in every]
        if not name.startswith(APART) and any(value != values[0] for value in values):
            rows.append((name, *(_shown(name, value, clean) for value in values)))
    caption = "Settings that differ between the runs."
    return Table(caption, ("setting", *names), tuple(rows))


def _shown(name: str, value: Any, clean: Clean) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    before = f"{name}="
    return clean(before + text).removeprefix(before)
