"""Evaluations as tables for a person.

In    the document of an evaluation, of a suite, or of a comparison
Out   text
Not   a judgement: what could not be scored is said, not left out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(found: Mapping[str, Any]) -> str:
    """One evaluation."""
    used = found.get("usage")
    rows = [
        ("tasks", f"{found['tasks']} of {found['env']}, split {found['split']}"),
        ("model", f"{found['model']}, temperature {found['temperature']:g}"),
        ("template", found["template"]),
        ("attempts", f"{found['episodes']} ({found['k']} a task, {found['errors']} not scored)"),
        ("accuracy", interval(found["accuracy"])),
        *_with_errors(found),
        ("reward", interval(found["reward"])),
        *((f"pass@{j}", number(share)) for j, share in found["pass_at"].items() if j != "1"),
        *((f"pass all {j}", number(share)) for j, share in found["pass_all"].items() if j != "1"),
        ("truncated", f"{found['truncated']}"),
        ("ended by", ", ".join(f"{stop} {n}" for stop, n in found["stops"].items())),
        ("turns", f"{number(found['turns'])} an attempt"),
        (
            "tool calls",
            f"{number(found['tool_calls'])} an attempt, {found['invalid_calls']} failed",
        ),
        ("tokens", f"{found['tokens']} sampled, {number(found['tokens_per_turn'], 1)} a turn"),
        *([("endpoint", _used(used))] if used else []),
        *(
            (f"{kind} {word}"[:40], f"{interval(told)} ({told['tasks']} tasks)")
            for kind, words in found["by"].items()
            for word, told in words.items()
        ),
    ]
    if found.get("path"):
        rows.append(("written", found["path"]))
    return aligned(rows)


def suite_table(found: Mapping[str, Any]) -> str:
    """A suite: a line an environment, and the mean of all."""
    rows = [
        (
            name,
            f"{interval(one['accuracy'])}   {one['episodes']} attempts, {one['errors']} not scored,"
            f" {one['truncated']} truncated",
        )
        for name, one in found["evaluations"].items()
    ]
    rows.append(("mean of all", interval(found["accuracy"])))
    if found.get("path"):
        rows.append(("written", found["path"]))
    return aligned(rows)


def aligned(rows: Sequence[tuple[str, str]]) -> str:
    """Names, and what is said of each, in two columns."""
    width = max(12, *(len(name) + 2 for name, _ in rows))
    return "\n".join(f"{name:<{width}}{value}" for name, value in rows)


def interval(found: Mapping[str, Any] | None) -> str:
    """A mean and its interval."""
    if found is None or found["mean"] is None:
        return "nothing could be scored"
    return f"{found['mean']:.3f}   95% interval {number(found['low'])} to {number(found['high'])}"


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def _with_errors(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not found["errors"]:
        return []
    return [("errors wrong", interval(found["accuracy_errors_wrong"]))]


def _used(used: Mapping[str, Any]) -> str:
    said = (
        f"{used['requests']} requests, {used['prompt_tokens']} "
        f"prompt tokens ({used['cached_tokens']} cached), {used['completion_tokens']} sampled"
    )
    if used["filtered"]:
        said += f", {used['filtered']} turns filtered"
    if used["uncounted"]:
        said += f", {used['uncounted']} answers without a count"
    return said + (f", cost {used['cost']:.4f}" if used["cost"] else "")
