"""What gymnasium's toy texts leave unsaid: names of actions, and the rules.

In    nothing
Out   TOYS, by id without its version
Not   needed for other environments: their authors' users say it by options
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Toy:
    """Names of the actions in their order, and what to tell a policy."""

    actions: tuple[str, ...]
    rules: str
    success: float | None = None
    """Reward of an episode played well, where the id itself names none that fits one episode."""


_LAKE = Toy(
    ("left", "down", "right", "up"),
    "You cross a frozen lake of squares: S is the start, F ice, H a hole, G the goal, and [ ] "
    "marks where you stand. Reach G without falling into a hole. The ice may be slippery: a step "
    "may then go to one side. The observation is your square, counted row by row from 0.",
)
_CLIFF = Toy(
    ("up", "right", "down", "left"),
    "You walk over a grid: x is where you are, C the cliff, T the target. Each step costs 1; "
    "stepping on the cliff costs 100 and puts you back at the start. Reach T. The observation is "
    "your square, counted row by row from 0.",
    -13.0,
)
TOYS: Final[Mapping[str, Toy]] = {
    "Blackjack": Toy(
        ("stick", "hit"),
        "You play blackjack against a dealer. The observation is your sum, the card that the "
        "dealer shows (1 is an ace), and whether you hold an ace that counts 11 (1 or 0). Hit for "
        "another card, stick to let the dealer play. Above 21 you lose.",
    ),
    "CliffWalking": _CLIFF,
    "CliffWalkingSlippery": _CLIFF,
    "FrozenLake": _LAKE,
    "FrozenLake8x8": _LAKE,
    "Taxi": Toy(
        ("south", "north", "east", "west", "pickup", "dropoff"),
        "You drive a taxi over a grid with walls |: [ ] marks the taxi, ( ) the place where the "
        "passenger waits, { } where the passenger wants to go. Drive to the passenger, pick up, "
        "drive to the destination, drop off. Each step costs 1, a wrong pickup or dropoff 10; "
        "bringing the passenger home earns 20.",
        0.0,
    ),
}
