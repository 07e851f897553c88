"""Where a run stands: the part of a checkpoint that is neither weights nor optimiser.

In    what the training loop counts
Out   Standing: step, version, tasks drawn so far; saved and loaded as JSON
Not   random state: every draw is a function of seed, step, task and member
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

DRAWING = ("cursor", "levels", "pasts", "audits")
"""What of a standing says which tasks are drawn next; a step played ahead moves its own copy."""


@dataclass(slots=True)
class Standing:
    """The counters of a run."""

    step: int = 0
    version: int = 0
    cursor: int = 0
    """Tasks drawn so far."""
    flat_in_a_row: int = 0
    shorter_in_a_row: int = 0
    """Steps whose kept rows were far shorter than others of their reward."""
    tokens: dict[str, int] = field(
        default_factory=lambda: {"sampled": 0, "trained": 0, "forwarded": 0}
    )
    seconds: dict[str, float] = field(default_factory=dict)
    levels: dict[str, list[float]] = field(default_factory=dict)
    """Correct and scored episodes by level of difficulty, where a curriculum counts them."""
    pasts: dict[str, Sequence[float]] = field(default_factory=dict)
    """What past.py remembers of flat tasks, where they are skipped."""
    audits: dict[str, list[float]] = field(default_factory=dict)
    """What leftout.py knows of episodes that were not played."""
    ahead: int = 0
    """Steps that were played, or begun, ahead of this one when it was saved; they are not in it."""
    discarded: int = 0
    """Steps that were thrown away so and played again."""

    def draw_like(self, other: Standing) -> None:
        """Draw on from where another stands."""
        for name in DRAWING:
            setattr(self, name, copy.deepcopy(getattr(other, name)))

    def save(self, folder: Path) -> None:
        """Write the counters."""
        (folder / "standing.json").write_text(json.dumps(asdict(self)), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Take the counters from disk."""
        found = json.loads((folder / "standing.json").read_text(encoding="utf-8"))
        for name, value in found.items():
            setattr(self, name, value)
