"""Word problems of other people: a file, or a data set of Hugging Face.

In    where they are, and the columns of question and answer
Out   Task for each row; every gold answer is known to be one that can be graded
Not   a repair: a row without a question or with a gold answer that nothing would equal is refused
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentrl.errors import UsageError, blame
from agentrl.graders import check_gold
from agentrl.optional import need
from agentrl.task import SPLITS, Task
from agentrl_environments._gsm_solution import gold_of, worked_out

EXTRA = "datasets"
"""What brings the packages datasets and pyarrow."""
MAX_WORDS = 6
"""Of a gold answer; with more it is a solution whose answer is not marked."""
_WORD = re.compile(r"(?<!\\)\b[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns that are read."""

    question: str = "question"
    answer: str = "answer"
    """The gold answer, or a solution that ends with it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One problem as its author wrote it."""

    where: str
    """File and line, or data set and row."""
    values: Mapping[str, Any]


@cache
def file_tasks(path: Path, split: str, columns: Columns) -> tuple[Task, ...]:
    """Tasks of a JSONL or Parquet file whose content belongs to a split.

    Raises:
        UsageError: The file or a row of it can't be used.
    """
    readers = {".jsonl": _lines, ".json": _lines, ".parquet": _parquet}
    read = readers.get(path.suffix)
    if read is None:
        raise UsageError(f"gsm: {path}: it is neither .jsonl nor .parquet. Give such a file.")
    return _different(task for task in tasks_of(read(path), columns) if task.split == split)


@cache
def hub_tasks(name: str, subset: str, split: str, columns: Columns) -> tuple[Task, ...]:
    """Tasks of a data set that the package datasets can load, which may download it.

    Raises:
        UsageError: The package is missing, or the data set or a row of it can't be used.
    """
    return split_tasks(need("datasets", EXTRA, f"gsm: hf:{name}"), name, subset, split, columns)


def split_tasks(
    library: Any, name: str, subset: str, split: str, columns: Columns
) -> tuple[Task, ...]:
    """Tasks of a data set's own split, or by content where it has not both.

    What is in both of its splits is tested with, and not trained on.

    Args:
        library: The package datasets.
        name: Of the data set, or its folder.
        subset: Of the data set; empty for the only one.
        split: train or test.
        columns: What to read.
    """

    def given(one: str) -> Iterator[Task]:
        with blame(UsageError, f"gsm: hf:{name}"):
            rows = library.load_dataset(name, subset or None, split=one)
        return tasks_of((Row(f"hf:{name} {one}[{i}]", row) for i, row in enumerate(rows)), columns)

    with blame(UsageError, f"gsm: hf:{name}"):
        there = list(library.get_dataset_split_names(name, subset or None))
    if not set(SPLITS) <= set(there):
        return _different(t for one in there for t in given(one) if t.split == split)
    if split == "test":
        return _different(given("test"))
    kept = {task.hash for task in given("test")}
    return _different(task for task in given("train") if task.hash not in kept)


def tasks_of(rows: Iterable[Row], columns: Columns) -> Iterator[Task]:
    """A task for each row.

    Raises:
        UsageError: A row lacks a column, or its gold answer can't be graded.
    """
    for row in rows:
        question, solution = (_cell(row, name) for name in (columns.question, columns.answer))
        gold = gold_of(solution)
        problem = _prose(gold) or check_gold(gold)
        if problem is not None:
            raise UsageError(
                f"gsm: {row.where}: gold answer {gold[:80]!r} can't be graded: {problem}. "
                "Mend the row, or name another column with --env.answer."
            )
        yield worked_out(question, gold, solution)


def _prose(gold: str) -> str | None:
    words = len(_WORD.findall(gold))
    return f"it is prose of {words} words, which no answer repeats" if words > MAX_WORDS else None


def _cell(row: Row, name: str) -> str:
    if name not in row.values:
        known = ", ".join(map(str, row.values)) or "none"
        raise UsageError(
            f"gsm: {row.where}: there is no column {name!r}. It has {known}. "
            "Name yours with --env.question and --env.answer."
        )
    value = row.values[name]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value).strip() if number or isinstance(value, str) else ""
    if not text:
        raise UsageError(f"gsm: {row.where}: its {name} is {value!r}. Give text or a number.")
    return text


def _lines(path: Path) -> Iterator[Row]:
    with blame(UsageError, f"gsm: {path}"):
        lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        with blame(UsageError, f"gsm: {where}"):
            values = json.loads(line)
        if not isinstance(values, dict):
            raise UsageError(f"gsm: {where}: a {type(values).__name__}. Write a JSON object.")
        yield Row(where, values)


def _parquet(path: Path) -> Iterator[Row]:
    parquet = need("pyarrow.parquet", EXTRA, f"gsm: {path}")
    with blame(UsageError, f"gsm: {path}"):
        rows: Sequence[Mapping[str, Any]] = parquet.read_table(path).to_pylist()
    return (Row(f"{path} row {number}", row) for number, row in enumerate(rows))


def _different(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Each content once."""
    return tuple({task.hash: task for task in tasks}.values())
