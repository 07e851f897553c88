"""Spaces of gymnasium in words: an action as a tool's arguments, an observation as text.

In    spaces; the arguments that a policy wrote; observations; frames drawn for a terminal
Out   a JSON schema, an action of the space or BadArguments; text
Not   every space: one that has no words is refused
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from gymnasium import spaces

from agentrl.errors import BadArguments, UsageError

MOST_SEEN: Final = 1000
"""Numbers of an observation."""
MOST_CHOSEN: Final = 16
"""Numbers of an action."""
_COLOUR = re.compile(r"\x1b\[([0-9;]*)m(.+?)\x1b\[0m", re.DOTALL)
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MARKS = {"34": "()", "35": "{}"}

Names = tuple[str, ...]


def action_named(where: str, space: spaces.Space[Any], names: Sequence[str]) -> Names:
    """Names of the actions of a Discrete space; none where they go by number.

    Raises:
        UsageError: there are more or fewer than actions, or two are the same.
    """
    if not names:
        return ()
    if not isinstance(space, spaces.Discrete):
        raise UsageError(
            f"{where}: actions have names only where their space is Discrete. Leave the names out."
        )
    if isinstance(names, str):
        raise UsageError(f'{where}: actions is {names!r}. Give a list: \'["left", "right"]\'.')
    if len(names) != space.n or len(set(names)) != space.n:
        raise UsageError(f"{where}: {len(names)} names for {space.n} actions. Name each, once.")
    return tuple(map(str, names))


def parameters_of(where: str, space: spaces.Space[Any], names: Names) -> dict[str, Any]:
    """The schema of `act`: one parameter `action`, or those that a Dict space names.

    Raises:
        UsageError: the space has no words.
    """
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"action": space}
    properties = {key: _schema(where, part, names) for key, part in parts.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def check_action(
    space: spaces.Space[Any], names: Names, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The keyword argument of `act`.

    Raises:
        BadArguments: what was written is no action.
    """
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"action": space}
    listed = ", ".join(parts)
    for key in arguments:
        if key not in parts:
            raise BadArguments(f"act: there is no parameter {key[:80]}. Parameters: {listed}.")
    for key in parts:
        if key not in arguments:
            raise BadArguments(f"act: {key} is missing. Parameters: {listed}.")
    chosen = {key: _value(key, part, names, arguments[key]) for key, part in parts.items()}
    return {"action": chosen if isinstance(space, spaces.Dict) else chosen["action"]}


def refuse_unseen(where: str, space: spaces.Space[Any]) -> None:
    """UsageError for observations that are no words: pictures, above all."""
    size = _size(space)
    if size > MOST_SEEN:
        raise UsageError(
            f"{where}: its observations are {size} numbers, as pictures are. A policy here reads "
            f"text, and {MOST_SEEN} numbers at most. Wrap it so that it shows words."
        )


def shown(space: spaces.Space[Any], observation: Any) -> str:
    """An observation as text: what is text as it is, anything else as JSON."""
    if isinstance(observation, str):
        return observation
    return json.dumps(_plain(space, observation), ensure_ascii=False, default=str)


def plain(frame: str) -> str:
    """A frame for a terminal without colours; brackets stand for those that mark something.

    A background is [x], blue (x), magenta {x}; other colours go without a mark.
    """
    marked = _COLOUR.sub(_marked, frame)
    return _ESCAPE.sub("", marked).strip("\n")


def _marked(match: re.Match[str]) -> str:
    codes, text = match[1].split(";"), match[2]
    if any(code.startswith("4") and len(code) == 2 for code in codes):
        return f"[{text}]"
    marks = next((_MARKS[code] for code in codes if code in _MARKS), None)
    return f"{marks[0]}{text}{marks[1]}" if marks else text


def _schema(where: str, space: spaces.Space[Any], names: Names) -> dict[str, Any]:
    if isinstance(space, spaces.Discrete):
        if names:
            return {"type": "string", "enum": list(names)}
        first = int(space.start)
        return {"type": "integer", "minimum": first, "maximum": first + int(space.n) - 1}
    if isinstance(space, spaces.Text):
        return {"type": "string", "minLength": space.min_length, "maxLength": space.max_length}
    size = _size(space)
    if len(getattr(space, "shape", None) or ()) == 1 and size <= MOST_CHOSEN:
        kind = "number" if isinstance(space, spaces.Box) else "integer"
        said = {} if isinstance(space, spaces.Box) else {"description": f"In {space}."}
        items = {"type": kind, **_bounds(space)}
        return {"type": "array", "items": items, "minItems": size, "maxItems": size, **said}
    raise UsageError(
        f"{where}: its actions, {str(space)[:100]}, have no words here. Wrap it so that they are "
        "Discrete, Text, a short MultiDiscrete, MultiBinary or Box, or a Dict of these."
    )


def _bounds(space: spaces.Space[Any]) -> dict[str, float]:
    """Those that hold for every number of a Box."""
    if not isinstance(space, spaces.Box):
        return {}
    low, high = float(space.low.min()), float(space.high.max())
    found = {"minimum": low, "maximum": high}
    return {key: value for key, value in found.items() if abs(value) < 1e30}


def _value(key: str, space: spaces.Space[Any], names: Names, given: Any) -> Any:
    if isinstance(space, spaces.Discrete):
        return _choice(key, space, names, given)
    if isinstance(space, spaces.Text):
        if not isinstance(given, str) or not space.contains(given):
            raise BadArguments(f"act: {key} is not text in {space}.")
        return given
    numbers = given if isinstance(given, list) else [given]
    whole = not isinstance(space, spaces.Box)
    try:
        with np.errstate(over="raise"):
            value = np.array([_number(part, whole) for part in numbers], dtype=space.dtype)
    except (ValueError, TypeError, ArithmeticError):
        raise BadArguments(f"act: {key} is not a list of numbers.") from None
    if not space.contains(value):
        raise BadArguments(f"act: {key} is not in {space}.")
    return value


def _choice(key: str, space: spaces.Discrete, names: Names, given: Any) -> int:
    first = int(space.start)
    if names:
        if not isinstance(given, str) or given not in names:
            raise BadArguments(f"act: {key} is one of {', '.join(names)}.")
        return first + names.index(given)
    try:
        number = int(_number(given, whole=True))
    except (ValueError, TypeError, OverflowError):
        number = first - 1
    if not first <= number < first + int(space.n):
        last = first + int(space.n) - 1
        raise BadArguments(f"act: {key} is a whole number from {first} to {last}.")
    return number


def _number(given: Any, whole: bool) -> float:
    """A number, also written as text, as other tools take it; ValueError if it is none."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(given)
    if isinstance(given, str) and len(given) > 40:
        raise ValueError(given[:40])
    number = float(given)
    if not math.isfinite(number) or (whole and not number.is_integer()):
        raise ValueError(given)
    return number


def _size(space: spaces.Space[Any]) -> int:
    if isinstance(space, spaces.Dict):
        return sum(map(_size, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return sum(map(_size, space.spaces))
    return math.prod(space.shape or ())


def _plain(space: spaces.Space[Any], value: Any) -> Any:
    if isinstance(space, spaces.Dict) and isinstance(value, Mapping):
        return {key: _plain(space[key], part) for key, part in value.items() if key in space.spaces}
    if isinstance(space, spaces.Tuple) and isinstance(value, tuple | list):
        return [_plain(part, inner) for part, inner in zip(space.spaces, value, strict=False)]
    if isinstance(value, np.ndarray | np.generic):
        rounded = np.round(value, 4) if np.issubdtype(value.dtype, np.floating) else value
        # Through float64: a float32 of 0.1 is 0.10000000149 otherwise.
        return _short(rounded.tolist())
    return value


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value
