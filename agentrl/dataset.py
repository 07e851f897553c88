"""Files of trajectories → what is learned from, checked before anything is written.

In    files that `rollout` wrote, a rule of what is kept, the dialect of the model
Out   Dataset: token sequences of kept trajectories, split by task
Not   text encoded again: the ids are those that were sampled

A file is read to its end or refused. Only a last line without an end is passed over: it was cut
off when it was written.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from agentrl import rollout_manifest
from agentrl.dialect import Dialect
from agentrl.errors import UsageError
from agentrl.keeping import Rule
from agentrl.sample import Sample

TOKENS = ("input_ids", "loss_mask", "logprobs")
NEEDED = ("task_id", "reward", "status")


@dataclass(frozen=True, slots=True)
class Example:
    """A kept trajectory."""

    task: str
    samples: tuple[Sample, ...]
    """One per branch that was sampled in."""

    @property
    def longest(self) -> int:
        """Tokens of its longest branch."""
        return max(len(sample.input_ids) for sample in self.samples)


@dataclass(slots=True)
class Dataset:
    """What the files hold."""

    rows: int = 0
    """Trajectories that were read."""
    train: list[Example] = field(default_factory=list)
    heldout: list[Example] = field(default_factory=list)
    """Of tasks that none of the others are of."""
    sources: list[dict[str, Any]] = field(default_factory=list)
    """Manifests of the files."""
    hashes: dict[str, str] = field(default_factory=dict)
    """Sha256 of each file."""

    @property
    def kept(self) -> int:
        """Trajectories that are kept."""
        return len(self.train) + len(self.heldout)

    @property
    def longest(self) -> int:
        """Tokens of the longest branch of all."""
        return max(example.longest for example in (*self.train, *self.heldout))


def read(
    files: Sequence[str], rule: Rule, dialect: Dialect, *, entries: int, heldout: float, seed: int
) -> Dataset:
    """Read all files.

    Args:
        files: What `rollout` wrote.
        rule: What is kept.
        dialect: Of the model that will learn.
        entries: Rows of its embedding.
        heldout: Share of tasks that are held out; at least one task is trained on.
        seed: Of the split.

    Raises:
        UsageError: a file cannot be used, or nothing is kept.
    """
    found, examples = Dataset(), list[Example]()
    for name in files:
        found.sources.append(_same_dialect(Path(name), dialect))
        raw = _bytes(name)
        digest = hashlib.sha256(raw).hexdigest()
        if twin := next((other for other, of in found.hashes.items() if of == digest), None):
            raise UsageError(
                f"--data {name}: the same as {twin}. Its trajectories would count twice. "
                "Leave one out, or raise --epochs."
            )
        found.hashes[name] = digest
        for where, row in _rows(name, raw):
            found.rows += 1
            if rule.keeps(row) and row.get("trained_tokens") != 0:
                examples.append(_example(where, row, entries))
    if not examples:
        raise UsageError(
            f"--keep {rule.text}: none of {found.rows} trajectories is kept. Lower it, "
            "or play more with `agentrl rollout`."
        )
    out = _held_out({e.task for e in examples}, heldout, seed)
    found.train = [e for e in examples if e.task not in out]
    found.heldout = [e for e in examples if e.task in out]
    return found


def _same_dialect(file: Path, dialect: Dialect) -> dict[str, Any]:
    if not file.is_file():
        raise UsageError(f"--data {file}: no such file. Write one with `agentrl rollout`.")
    found = rollout_manifest.read(file)
    other = dialect.differs(found["dialect"])
    if other is not None:
        model = (found.get("weights") or {}).get("model")
        raise UsageError(
            f"--data {file}: it was played by {model}, whose {other} is not that of --model. "
            "The tokens would mean something else. Name a model of the same kind."
        )
    return found


def _bytes(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(
            f"--data {name}: cannot be read. {error.strerror}. "
            "Name a file that agentrl rollout wrote."
        ) from error


def _rows(name: str, raw: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Whole lines, each with its place."""
    *lines, _ = raw.split(b"\n")
    for number, line in enumerate(lines, 1):
        where = f"{name}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise UsageError(
                f"{where}: not a line of JSON. Only the last line may be cut off. "
                "Take it out, or write the file anew."
            ) from None
        if not isinstance(row, dict) or any(key not in row for key in NEEDED):
            raise UsageError(f"{where}: not a trajectory. Give a file of `agentrl rollout`.")
        if any(key not in row for key in TOKENS):
            raise UsageError(
                f"{where}: it has no tokens. Give a file of `agentrl rollout`, which has them."
            )
        yield where, row


def _example(where: str, row: Mapping[str, Any], entries: int) -> Example:
    ids, mask, logprobs = (row[name] for name in TOKENS)
    if not all(isinstance(column, list) for column in (ids, mask, logprobs)) or not (
        len(ids) == len(mask) == len(logprobs)
    ):
        raise UsageError(f"{where}: ids, mask and log-probs differ in length. Write it anew.")
    for i in ids:
        if type(i) is not int or not 0 <= i < entries:
            raise UsageError(
                f"{where}: token {i!r} is not one of the model's {entries}. "
                "It was played by another model. Name that one."
            )
    if any(type(m) is not int or m not in (0, 1) for m in mask):
        raise UsageError(f"{where}: its loss_mask holds more than 0 and 1. Write it anew.")
    lengths = row.get("branches", [len(ids)])
    if sum(lengths) != len(ids):
        raise UsageError(f"{where}: its branches have not the length of its ids. Write it anew.")
    ends = list(accumulate(lengths))
    parts = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    known = [math.nan if value is None else float(value) for value in logprobs]
    samples = [_sample(ids[part], mask[part], known[part]) for part in parts if any(mask[part])]
    if not samples or any(sample.loss_mask[0] for sample in samples):
        raise UsageError(f"{where}: nothing comes before what was sampled. Write it anew.")
    return Example(str(row["task_id"]), tuple(samples))


def _sample(ids: Sequence[int], mask: Sequence[int], logprobs: Sequence[float]) -> Sample:
    return Sample(tuple(ids), tuple(mask), tuple(logprobs), advantage=1.0)


def _held_out(tasks: set[str], share: float, seed: int) -> set[str]:
    """Tasks in the order of their hashes: a task is held out or not, whatever else there is."""

    def place(task: str) -> float:
        digest = hashlib.sha256(f"{seed}:{task}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    out = {task for task in tasks if place(task) < share}
    return out if len(out) < len(tasks) else set()
