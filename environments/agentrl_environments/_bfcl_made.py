"""Conversations to train on, made up in the leaderboard's worlds: none of its scenarios.

In    a number and a category
Out   Entry, the same for the same number; its gold calls all succeed
Not   as hard as the leaderboard's, nor of all its classes: each wish stands for itself
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from agentrl_environments import _bfcl_data as data
from agentrl_environments._bfcl_calls import GoldCall
from agentrl_environments._bfcl_data import Entry

MADE: Final = "made"
MOST: Final = 6
"""Wishes of a conversation."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing that a user asks for; words and arguments share their slots."""

    words: str
    calls: Mapping[str, Mapping[str, Any]]
    vague: str = ""
    """The same without something that a call needs, where that can be left out."""
    rest: str = ""
    """What was left out."""


FILES: Final = (
    Wish("Make a folder called {folder}.", {"mkdir": {"dir_name": "{folder}"}},
         "Make me a new folder here.", "Call it {folder}."),
    Wish("Copy {file} to {new}.", {"cp": {"source": "{file}", "destination": "{new}"}},
         "Make a copy of {file}.", "The copy is to be called {new}."),
    Wish("Rename {file} to {new}.", {"mv": {"source": "{file}", "destination": "{new}"}},
         "Please rename {file}.", "Its new name is {new}."),
    Wish("Make a folder {folder} and move {file} into it.",
         {"mkdir": {"dir_name": "{folder}"},
          "mv": {"source": "{file}", "destination": "{folder}"}}),
    Wish("How many words are there in {file}?", {"wc": {"file_name": "{file}", "mode": "w"}}),
    Wish("Which lines of {file} hold the word {word}?",
         {"grep": {"file_name": "{file}", "pattern": "{word}"}},
         "Look in {file} for a word of mine.", "The word is {word}."),
    Wish("Show me the last {few} lines of {file}.",
         {"tail": {"file_name": "{file}", "lines": "{few}"}},
         "Show me the last lines of one of the files: {few} lines.", "The file is {file}."),
    Wish("Show {file} sorted by line.", {"sort": {"file_name": "{file}"}}),
    Wish("Create an empty file called {new}.", {"touch": {"file_name": "{new}"}},
         "Create an empty file.", "Its name is {new}."),
    Wish("What does {file} say?", {"cat": {"file_name": "{file}"}}),
    Wish("Delete {file}.", {"rm": {"file_name": "{file}"}},
         "Delete one of the files.", "I mean {file}."),
)  # fmt: skip

CAR: Final = (
    Wish("Put {few} more gallons into the tank.", {"fillFuelTank": {"fuelAmount": "{few}"}},
         "Fill up some fuel.", "{few} gallons are enough."),
    Wish("Unlock the {door} door.", {"lockDoors": {"unlock": True, "door": ["{door}"]}},
         "Unlock one of the doors.", "The {door} door."),
    Wish("Cool to {degrees} degrees Celsius, with the fan at {percent}.",
         {"adjustClimateControl": {"temperature": "{degrees}", "unit": "celsius",
                                   "fanSpeed": "{percent}", "mode": "cool"}}),
    Wish("Turn the headlights on.", {"setHeadlights": {"mode": "on"}}),
    Wish("Navigate to {street}.", {"set_navigation": {"destination": "{street}"}},
         "Navigate me to a friend.", "The address is {street}."),
    Wish("What is the pressure of the tires?", {"check_tire_pressure": {}}),
    Wish("Show me the status of the {option}.", {"displayCarStatus": {"option": "{option}"}},
         "Show me the status of something.", "Of the {option}, I mean."),
    Wish("How many liters are {many} gallons?", {"gallon_to_liter": {"gallon": "{many}"}}),
    Wish("Could I drive {many} miles with what is in the tank?",
         {"estimate_drive_feasibility_by_mileage": {"distance": "{many}"}},
         "Could I drive home with what is in the tank?", "It is {many} miles."),
    Wish("Engage the parking brake.", {"activateParkingBrake": {"mode": "engage"}}),
)  # fmt: skip

TRADING: Final = (
    Wish("How does {stock} stand?", {"get_stock_info": {"symbol": "{stock}"}},
         "How does that stock of mine stand?", "{stock}."),
    Wish("Put {stock} on my watchlist.", {"add_to_watchlist": {"stock": "{stock}"}},
         "Put a stock on my watchlist.", "I mean {stock}."),
    Wish("What is on my watchlist?", {"get_watchlist": {}}),
    Wish("Pay {many} dollars into my account.", {"fund_account": {"amount": "{many}"}},
         "Pay some money into my account.", "{many} dollars."),
    Wish("Buy {few} shares of {stock} at {percent} dollars each.",
         {"place_order": {"order_type": "Buy", "symbol": "{stock}", "price": "{percent}",
                          "amount": "{few}"}},
         "Buy some shares of {stock} at {percent} dollars each.", "{few} shares."),
    Wish("What is my balance?", {"get_account_info": {}}),
    Wish("What time is it at the exchange?", {"get_current_time": {}}),
)  # fmt: skip

NUMBERS: Final = (
    Wish("What is the mean of {few}, {percent} and {many}?",
         {"mean": {"numbers": ["{few}", "{percent}", "{many}"]}}),
    Wish("How many feet are {many} meters?",
         {"imperial_si_conversion": {"value": "{many}", "unit_in": "m", "unit_out": "ft"}}),
    Wish("What percentage of {many} is {few}?",
         {"percentage": {"part": "{few}", "whole": "{many}"}},
         "What percentage of {many} is my share?", "My share is {few}."),
    Wish("Multiply {many} by {percent}.", {"multiply": {"a": "{many}", "b": "{percent}"}},
         "Multiply {many} by my number.", "It is {percent}."),
)  # fmt: skip

WORLDS: Final[Mapping[str, Sequence[Wish]]] = {
    "GorillaFileSystem": FILES,
    "VehicleControlAPI": CAR,
    "TradingBot": TRADING,
}
NOUNS: Final = ("anchor", "birch", "copper", "dune", "ember", "fjord", "glacier", "heron", "indigo",
                "juniper", "kelp", "lantern", "moss", "nectar", "onyx", "pebble", "quartz", "reed",
                "saffron", "tundra", "umber", "vellum", "willow", "yarrow")  # fmt: skip
STOCKS: Final = ("ARBR", "BLUM", "CRWN", "DRFT", "ELMS", "FERN", "GLDE", "HZEL", "IRIS", "JOLT")
DOORS: Final = ("driver", "passenger", "rear_left", "rear_right")
OPTIONS: Final = ("fuel", "battery", "doors", "climate", "headlights")


def entry_of(name: str) -> Entry:
    """The entry of an id, made up or the leaderboard's."""
    kind, _, rest = name.partition("_")
    if kind != MADE:
        return data.entry(name)
    category, _, number = rest.rpartition("_")
    return made(category, int(number))


@lru_cache(maxsize=1000)
def made(category: str, number: int) -> Entry:
    """The conversation of a number."""
    rng = np.random.default_rng(number)
    world = str(rng.choice(list(WORLDS)))
    classes = (world, "MathAPI") if rng.random() < 0.3 else (world,)
    wishes = [*WORLDS[world], *(NUMBERS if len(classes) > 1 else ())]
    chosen = _disjoint(
        [wishes[i] for i in rng.permutation(len(wishes))], int(rng.integers(2, MOST))
    )
    nouns = [NOUNS[i] for i in rng.permutation(len(NOUNS))]
    slots = [_slots(rng, nouns, at) for at in range(len(chosen))]
    asked = [(w.words.format(**s), _gold(w, s)) for w, s in zip(chosen, slots, strict=True)]
    late: dict[int, tuple[str, ...]] = {}
    if category == "miss_func":
        at = int(rng.integers(len(asked)))
        asked[at : at + 1] = [(asked[at][0], ()), ("", asked[at][1])]
        late = {at + 1: tuple(chosen[at].calls)}
    elif category == "miss_param" and any(wish.vague for wish in chosen):
        at = int(rng.choice([i for i, wish in enumerate(chosen) if wish.vague]))
        wish, found = chosen[at], slots[at]
        later = (wish.rest.format(**found), asked[at][1])
        asked[at : at + 1] = [(wish.vague.format(**found), ()), later]
    return Entry(
        id=f"{MADE}_{category}_{number}",
        category=category,
        number=number,
        questions=tuple(words for words, _ in asked),
        classes=classes,
        config={world: _config(world, rng, nouns)},
        late=late,
        gold=tuple(calls for _, calls in asked),
    )


def _disjoint(wishes: Sequence[Wish], most: int) -> list[Wish]:
    """The first wishes that share no function: one may come late for one of them alone."""
    found: list[Wish] = []
    for wish in wishes:
        if len(found) < most and not any(set(wish.calls) & set(other.calls) for other in found):
            found.append(wish)
    return found


def _slots(rng: np.random.Generator, nouns: Sequence[str], at: int) -> dict[str, Any]:
    """What a wish of a conversation is about; no two are about the same file."""
    own = nouns[3 * at : 3 * at + 3]
    return {
        "file": f"{own[0]}_notes.txt",
        "new": f"{own[1]}_draft.txt",
        "folder": f"{own[2]}_box",
        "word": str(rng.choice(_text(own[0]).split())),
        "few": int(rng.integers(2, 7)),
        "many": int(rng.integers(60, 900)),
        "percent": int(rng.integers(10, 90)),
        "degrees": int(rng.integers(17, 27)),
        "street": f"{rng.integers(1, 200)} {own[0].title()} Street, {own[1].title()}ville, Ohio",
        "door": DOORS[at % len(DOORS)],
        "option": str(rng.choice(OPTIONS)),
        "stock": STOCKS[at],
    }


def _gold(wish: Wish, slots: Mapping[str, Any]) -> tuple[GoldCall, ...]:
    return tuple(GoldCall(name, (), _filled(given, slots)) for name, given in wish.calls.items())


def _filled(value: Any, slots: Mapping[str, Any]) -> Any:
    """A value with its slots filled, each in its own type."""
    if isinstance(value, Mapping):
        return {key: _filled(part, slots) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, slots) for part in value]
    is_slot = isinstance(value, str) and value.startswith("{")
    return slots[value[1:-1]] if is_slot else value


def _text(noun: str) -> str:
    """What a file says: nouns in lines, from the one that it is called after."""
    start = NOUNS.index(noun)
    words = [NOUNS[(start + 7 * i) % len(NOUNS)] for i in range(12)]
    return "\n".join(" ".join(words[i : i + 3]) for i in range(0, 12, 3))


def _config(world: str, rng: np.random.Generator, nouns: Sequence[str]) -> dict[str, Any]:
    if world == "GorillaFileSystem":
        files = {
            f"{noun}_notes.txt": {"type": "file", "content": _text(noun)}
            for noun in nouns[: 3 * MOST : 3]
        }
        return {"root": {"desk": {"type": "directory", "contents": files}}}
    if world == "TradingBot":
        return {
            "orders": {},
            "account_info": {"account_id": 1, "balance": float(rng.integers(5000, 50_000))},
            "authenticated": True,
            "market_status": "Open",
            "order_counter": int(rng.integers(100, 9000)),
            "stocks": {symbol: _stock(rng) for symbol in STOCKS},
            "watch_list": [STOCKS[-1]],
            "transaction_history": [],
            "random_seed": int(rng.integers(2**31)),
        }
    return {
        "random_seed": int(rng.integers(2**31)),
        "fuelLevel": float(rng.integers(5, 40)),
        "doorStatus": dict.fromkeys(DOORS, "locked"),
    }


def _stock(rng: np.random.Generator) -> dict[str, float]:
    price = round(float(rng.uniform(20, 400)), 2)
    near = {f"MA({days})": round(price * float(rng.uniform(0.9, 1.1)), 2) for days in (5, 20)}
    return {"price": price, "percent_change": 0.1, "volume": 1.5, **near}
