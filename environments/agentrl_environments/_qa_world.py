"""A made-up world: people, towns, firms, schools and books that refer to each other.

In    nothing: it is the same world in every process
Out   things with their facts, and documents that tell them, outdated ones among them
Not   questions: `_qa_tasks.py` walks from thing to thing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

from agentrl_tools._documents import Document

COUNTS: Final = {"town": 160, "school": 100, "person": 1200, "firm": 500, "book": 500}


@dataclass(frozen=True, slots=True)
class Relation:
    """What one thing has to do with another, or with a year or a river."""

    name: str
    kind: str
    """Of the thing that is meant; empty where it is a word or a number."""
    phrase: str
    """How a question speaks of it; a whole question where kind is empty."""
    texts: tuple[str, ...]
    """How documents tell it: {} is what is meant, {old} what was before."""


RELATIONS: Final[Mapping[str, tuple[Relation, ...]]] = {
    "person": (
        Relation("birthplace", "town", "the birthplace of {}",
                 ("born in {}", "a native of {}")),
        Relation("born", "", "In which year was {} born?",
                 ("year of birth {}", "came into the world in {}")),
        Relation("school", "school", "the school of {}",
                 ("studied at {}", "a graduate of {}")),
        Relation("teacher", "person", "the teacher of {}",
                 ("was taught by {}", "learned everything from {}")),
        Relation("employer", "firm", "the employer of {}",
                 ("works for {}, no longer for {old}", "left {old} and now works for {}")),
    ),
    "town": (
        Relation("mayor", "person", "the mayor of {}",
                 ("the mayor is {}", "{} is mayor and followed {old}")),
        Relation("river", "", "On which river does {} lie?",
                 ("lies on the river {}", "the river {} runs through it")),
        Relation("charter", "", "In which year did {} get its charter?",
                 ("charter of {}", "a town with a charter since {}")),
        Relation("twin", "town", "the twin town of {}",
                 ("its twin town is {}", "keeps a twin town, {}")),
    ),
    "firm": (
        Relation("founder", "person", "the founder of {}",
                 ("founded by {}", "goes back to its founder {}")),
        Relation("founded", "", "In which year was {} founded?",
                 ("founded in {}", "in business since {}")),
        Relation("head", "person", "the head of {}",
                 ("{} is the head, as {old} was before", "the head is {}")),
        Relation("seat", "town", "the seat of {}",
                 ("moved its seat from {old} to {}", "the seat is in {}")),
    ),
    "school": (
        Relation("place", "town", "the town of {}",
                 ("stands in {}", "a school of {}")),
        Relation("rector", "person", "the rector of {}",
                 ("the rector is {}", "{} took over as rector from {old}")),
        Relation("opened", "", "In which year did {} open?",
                 ("opened in {}", "has taught since {}")),
    ),
    "book": (
        Relation("author", "person", "the author of {}",
                 ("written by {}", "a work of {}")),
        Relation("publisher", "firm", "the publisher of {}",
                 ("published by {}", "first sold by {}")),
        Relation("setting", "town", "the scene of {}",
                 ("set in {}", "its story takes place in {}")),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thing:
    """One of the world, and what is so today."""

    kind: str
    name: str
    facts: Mapping[str, str]
    """By relation: the name of a thing, a river or a year."""
    old: Mapping[str, str]
    """What was so before, where there was something."""


@cache
def world() -> Mapping[str, Thing]:
    """All things by name."""
    rng = Random("a world to search")
    names = {kind: _names(rng, kind, count) for kind, count in COUNTS.items()}
    rivers = _names(rng, "river", 60)
    things: dict[str, Thing] = {}
    for kind, listed in names.items():
        for name in listed:
            facts = {r.name: _value(rng, r, names, rivers, name) for r in RELATIONS[kind]}
            old = {
                r.name: _other(rng, names[r.kind], {name, facts[r.name]})
                for r in RELATIONS[kind]
                if any("{old}" in text for text in r.texts)
            }
            things[name] = Thing(kind, name, facts, old)
    return things


def documents() -> tuple[Document, ...]:
    """All documents, in the order of their ids."""
    rng = Random("its documents")
    found = [one for thing in world().values() for one in _documents(rng, thing)]
    return tuple(sorted(found, key=lambda document: document.id))


def _documents(rng: Random, thing: Thing) -> Iterator[Document]:
    told = [
        rng.choice(r.texts).format(thing.facts[r.name], old=thing.old.get(r.name, ""))
        for r in RELATIONS[thing.kind]
    ]
    rng.shuffle(told)
    yield Document(thing.name, f"{thing.name}, {thing.kind}: {'; '.join(told)}.")
    if thing.kind != "person" and thing.old and rng.random() < 0.5:
        told = [
            next(text for text in r.texts if "{old}" not in text).format(thing.old[r.name])
            for r in RELATIONS[thing.kind]
            if r.name in thing.old
        ]
        year = rng.randint(1970, 1999)
        text = f"Yearbook of {year}. {thing.name}, {thing.kind}: {'; '.join(told)}."
        yield Document(f"{thing.name} ({year})", text)


def _value(
    rng: Random, relation: Relation, names: Mapping[str, list[str]], rivers: list[str], own: str
) -> str:
    if relation.kind:
        return _other(rng, names[relation.kind], {own})
    if relation.name == "river":
        return rng.choice(rivers)
    low, high = (1100, 1700) if relation.name == "charter" else (1850, 1999)
    return str(rng.randint(low, high))


def _other(rng: Random, names: list[str], taken: set[str]) -> str:
    while True:
        name = rng.choice(names)
        if name not in taken:
            return name


STARTS: Final = (
    "Al", "Ba", "Bel", "Cor", "Da", "Dor", "El", "Fa", "Gar", "Hal", "Is", "Jo", "Kel", "Lor",
    "Mar", "Nel", "Or", "Pel", "Ros", "Sal", "Tor", "Ul", "Ver", "Wil",
)  # fmt: skip
MIDDLES: Final = ("a", "e", "i", "o", "ba", "da", "ga", "la", "ma", "na", "ra", "sa", "va")
ENDS: Final = (
    "bert", "dan", "dor", "gan", "len", "lin", "man", "mon", "nard", "nis", "ric", "ron", "sen",
    "ta", "ton", "vin",
)  # fmt: skip
TRADES: Final = (
    "Glass", "Paper", "Steel", "Tea", "Clocks", "Boats", "Bricks", "Seeds", "Lamps", "Wool",
)  # fmt: skip
HEADS: Final = ("Winter", "Silent", "Broken", "Golden", "Lost", "Second", "Hidden", "Burning")
TAILS: Final = ("Garden", "Bridge", "Harbour", "Letter", "Mirror", "Orchard", "Lantern", "Voyage")
SHAPES: Final[Mapping[str, tuple[str, ...]]] = {
    "town": ("{}ford", "{}burg", "{}ham", "{}stad"),
    "school": ("{} College", "{} Academy", "{} Institute"),
    "person": tuple(f"{start}{end} {{}}" for start in STARTS for end in ENDS),
    "firm": tuple(f"{{}} {trade}" for trade in TRADES),
    "book": tuple(f"The {head} {tail} of {{}}" for head in HEADS for tail in TAILS),
    "river": ("{}ach", "{}ell"),
}


def _names(rng: Random, kind: str, count: int) -> list[str]:
    """Names that differ; every second one is like the one before but for a letter."""
    names: dict[str, None] = {}
    while len(names) < count:
        shape, start = rng.choice(SHAPES[kind]), rng.choice(STARTS)
        middle, end = rng.choice(MIDDLES), rng.choice(ENDS)
        for inside in (middle, rng.choice("aeiou") if len(middle) == 1 else middle[0] + "u"):
            names[shape.format(start + inside + end)] = None
    return list(names)[:count]
