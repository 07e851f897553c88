"""The multi-turn entries of the Berkeley Function Calling Leaderboard, as the package has them.

In    the installed package bfcl-eval: its data files, read without importing it
Out   Entry; the functions of a class as tools are described here
Not   a copy: where the package is missing, UsageError says how to get it
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from agentrl.errors import EnvironmentFault, UsageError, blame
from agentrl_environments._bfcl_calls import GoldCall, read_call

PACKAGE: Final = "bfcl_eval"
CATEGORIES: Final = ("base", "long_context", "miss_func", "miss_param")
CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GorillaFileSystem": "gorilla_file_system",
        "MathAPI": "math_api",
        "MessageAPI": "message_api",
        "TicketAPI": "ticket_api",
        "TradingBot": "trading_bot",
        "TravelAPI": "travel_booking",
        "TwitterAPI": "posting_api",
        "VehicleControlAPI": "vehicle_control",
    }
)
"""The package's classes, and the module and the description that each has."""
TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"dict": "object", "float": "number", "tuple": "array", "list": "array", "any": "string"}
)
"""Types of the package's descriptions that JSON schema calls otherwise."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One conversation: what the user says, the world it plays in, and the gold calls."""

    id: str
    category: str
    number: int
    """The same scenario has the same number in every category."""
    questions: tuple[str, ...]
    """The user's words, turn by turn; empty where functions are added instead."""
    classes: tuple[str, ...]
    config: Mapping[str, Any]
    """How each class begins."""
    late: Mapping[int, tuple[str, ...]]
    """Functions that come with a turn; before it they are not there."""
    gold: tuple[tuple[GoldCall, ...], ...]
    """Calls of a right solution, turn by turn; none where nothing can be done."""

    @property
    def long(self) -> bool:
        """Whether its classes pad what they hold and say."""
        return self.category == "long_context"


@cache
def entries(category: str) -> tuple[Entry, ...]:
    """All entries of a category, in the order of the package.

    Raises:
        UsageError: The package is not installed.
        EnvironmentFault: Its data are not as they should be.
    """
    data = package() / "data"
    name = f"BFCL_v4_multi_turn_{category}.json"
    with blame(EnvironmentFault, f"bfcl: {PACKAGE}/data/{name}"):
        golds = {row["id"]: row["ground_truth"] for row in _rows(data / "possible_answer" / name)}
        return tuple(_entry(category, row, golds[row["id"]]) for row in _rows(data / name))


def entry(name: str) -> Entry:
    """The entry of an id, such as multi_turn_base_7."""
    return _by_id()[name]


@cache
def functions(owner: str) -> Mapping[str, Mapping[str, Any]]:
    """Functions of a class by name: `name`, `description`, and `parameters` as JSON schema."""
    path = package() / "data" / "multi_turn_func_doc" / f"{CLASSES[owner]}.json"
    with blame(EnvironmentFault, f"bfcl: {PACKAGE}/data/multi_turn_func_doc/{path.name}"):
        return MappingProxyType({row["name"]: _function(row) for row in _rows(path)})


def package(name: str = PACKAGE) -> Path:
    """The folder of the package.

    Raises:
        UsageError: It is not installed.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "bfcl: it needs the package bfcl-eval, which is not installed. Its pins conflict with "
            "agentrl's. Get it without them: make bfcl, or pip install --no-deps bfcl-eval."
        )
    return Path(spec.submodule_search_locations[0])


@cache
def _by_id() -> Mapping[str, Entry]:
    return {found.id: found for category in CATEGORIES for found in entries(category)}


def _entry(category: str, row: Mapping[str, Any], gold: list[list[str]]) -> Entry:
    late = {int(turn): tuple(names) for turn, names in row.get("missed_function", {}).items()}
    return Entry(
        id=row["id"],
        category=category,
        number=int(row["id"].rpartition("_")[2]),
        questions=tuple("\n\n".join(said["content"] for said in turn) for turn in row["question"]),
        classes=tuple(row["involved_classes"]),
        config=row["initial_config"],
        late=late,
        gold=tuple(tuple(read_call(call) for call in turn) for turn in gold),
    )


def _function(row: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = as_schema(row["parameters"])
    return {"name": row["name"], "description": row["description"], "parameters": parameters}


def as_schema(described: Any) -> Any:
    """A description of parameters as JSON schema: the same but for the names of types."""
    if isinstance(described, list):
        return [as_schema(part) for part in described]
    if not isinstance(described, dict):
        return described
    out = {key: as_schema(value) for key, value in described.items()}
    kind = out.get("type")
    # A parameter may be called type, too: then it is described, and is no word.
    return {**out, "type": TYPES.get(kind, kind)} if isinstance(kind, str) else out


def _rows(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]
