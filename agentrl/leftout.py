"""What a step left out, and what is known of it all the same.

In    how each task's group was played, which tasks were skipped
Out   the play/ part of a step's row; the shares that were left out wrongly, kept in checkpoints
Not   certainty: what was not played is told from what it earned last and from a random part of it
      that was played in full

A mean over played episodes counts a group that its pilot ended as fewer episodes, and a skipped
task not at all. `estimate` is of all tasks that were met, each once. For a task that is played in
full only by a lot of chance p it takes a guess g (the pilot's mean, or the last group's) and, where
the lot fell on it, adds (mean - g) / p. Over the lot this is the mean that a full group would have
had, whatever g is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from agentrl.group import Group
from agentrl.past import Past
from agentrl.selection.objective import is_flat
from agentrl.selection.truncation import judged
from agentrl.trajectory import Trajectory

MEMORY = 0.99
"""Of the audits before, each step."""

Way = Literal["whole", "stopped", "audited", "returned"]
"""In full as always; ended after its pilot; in full after a pilot that would have ended it;
in full though its task would have been skipped. The last two by lot."""

Audits = Mapping[str, Sequence[float]]
"""By `pilot` and `skipped`: audited groups that had contrast, and all of them; each weighs what
the lot's chance makes it stand for."""
AUDITS: Mapping[str, str] = {"audited": "pilot", "returned": "skipped"}


@dataclass(frozen=True, slots=True)
class Ended:
    """A task's group, and why it has as many members as it has."""

    group: Group
    way: Way
    comparable: Sequence[float]
    """Rewards that selection can compare."""
    guess: float | None = None
    """What would be said of its mean reward if it had not been played in full."""
    chance: float = 1.0
    """Of being played in full."""

    @property
    def flat(self) -> bool | None:
        """Whether it had contrast; None where too few could be compared to tell."""
        return None if len(self.comparable) < 2 else is_flat(self.comparable)

    @property
    def estimate(self) -> float | None:
        """Mean reward of a full group: its own, or one that is right on average over the lot."""
        own = earned(self.group.trajectories)
        if self.way == "stopped":
            return self.guess
        if self.guess is None or own is None or self.chance >= 1.0:
            return own
        return self.guess + (own - self.guess) / self.chance


def comparable(trajectories: Sequence[Trajectory], truncated: str) -> list[float]:
    """The rewards that selection will compare, under its rule for what was cut off."""
    cut = [t.stop.status == "truncated" for t in trajectories]
    rewards, known = judged([t.reward for t in trajectories], cut, truncated)
    rows = zip(trajectories, rewards, known, strict=True)
    return [r for t, r, fine in rows if fine and t.valid and r is not None]


def earned(trajectories: Sequence[Trajectory]) -> float | None:
    """Mean reward of the valid ones."""
    found = [t.reward for t in trajectories if t.valid and t.reward is not None]
    return fmean(found) if found else None


def spent(trajectories: Sequence[Trajectory]) -> float:
    """Tokens that an episode sampled, on average."""
    return fmean([t.num_trained_tokens for t in trajectories]) if trajectories else 0.0


def audited(audits: Audits, ended: Sequence[Ended]) -> dict[str, list[float]]:
    """The audits after a step; older ones weigh less and less."""
    found = {name: [MEMORY * number for number in pair] for name, pair in audits.items()}
    for end in ended:
        if end.way in AUDITS and end.flat is not None:
            pair = found.setdefault(AUDITS[end.way], [0.0, 0.0])
            pair[0] += (not end.flat) / end.chance
            pair[1] += 1 / end.chance
    return found


def wrong(audits: Audits, name: str) -> float | None:
    """Share of what was left out that would have had contrast; None before any audit."""
    with_contrast, every = audits.get(name, (0.0, 0.0))
    return with_contrast / every if every else None


def play_part(
    ended: Sequence[Ended], skipped: Mapping[str, Past], audits: Audits, n: int
) -> dict[str, Any]:
    """The play/ part of a step's row."""
    stopped = [e.group.trajectories for e in ended if e.way == "stopped"]
    saved = sum((n - len(group)) * spent(group) for group in stopped)
    saved += sum(n * past.tokens for past in skipped.values())
    known = [e.estimate for e in ended] + [past.reward for past in skipped.values()]
    rewards = [r for r in known if r is not None]
    return {
        "play/skipped": len(skipped),
        "play/returned": sum(e.way == "returned" for e in ended),
        "play/pilot_flat": len(stopped),
        "play/audited": sum(e.way == "audited" for e in ended),
        "play/saved_tokens": round(saved),
        "play/wrongly_skipped": wrong(audits, "skipped"),
        "play/wrongly_stopped": wrong(audits, "pilot"),
        "play/reward": fmean(rewards) if rewards else None,
    }
