"""Questions that go from document to document.

In    a random generator, and how many documents must be found
Out   Task: the question, the name or the number it asks for, and the searches that lead there
Not   a single document that answers: each one names the next
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np

from agentrl.task import Task
from agentrl_environments._calls import answered, called
from agentrl_environments._qa_world import RELATIONS, world

HOPS: Final = {"easy": 2, "medium": 3, "hard": 4}
"""Documents that a question needs, by difficulty."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A way through the world."""

    question: str
    stops: tuple[str, ...]
    """Things whose documents must be found, in their order."""
    relations: tuple[str, ...]
    answer: str


def qa_task(rng: np.random.Generator, difficulty: str = "mixed") -> Task:
    """One question."""
    own = Random(int(rng.integers(1 << 62)))
    level = own.choice(list(HOPS)) if difficulty == "mixed" else difficulty
    way = _walk(own, HOPS[level])
    return Task(
        way.question,
        way.answer,
        meta={
            "difficulty": level,
            "tags": [f"hops_{HOPS[level]}"],
            "stops": list(way.stops),
            "relations": list(way.relations),
        },
        reference=(*(called("search", query=stop) for stop in way.stops), answered(way.answer)),
    )


def _walk(rng: Random, hops: int) -> Walk:
    """A way that never comes back to where it was."""
    things = world()
    names = tuple(things)
    while True:
        stops = [names[int(rng.random() * len(names))]]
        phrase, relations, said = stops[0], [], ""
        for left in range(hops, 0, -1):
            kinds = [r for r in RELATIONS[things[stops[-1]].kind] if r.kind or left == 1]
            relation = kinds[int(rng.random() * len(kinds))]
            relations.append(relation.name)
            stops.append(things[stops[-1]].facts[relation.name])
            said = relation.phrase.format(phrase)
            phrase = said if relation.kind else phrase
        if len(set(stops)) == len(stops):
            question = said if said.endswith("?") else f"What is the name of {said}?"
            return Walk(question, tuple(stops[:-1]), tuple(relations), stops[-1])
