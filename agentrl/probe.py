"""How a template writes calls, proved by letting it write some.

In    a tokenizer with a chat template
Out   Calls: the format that reads its calls back exactly, the dress it wants, how many a turn
Not   a look at names: two models of one name may have templates of two families
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentrl.errors import RenderError
from agentrl.formats.format import Format
from agentrl.formats.table import FORMATS, HERMES
from agentrl.message import AssistantTurn, Message, ToolCallDict
from agentrl.template import Dress, Template, Tokenizer

MARK = "Thismark."
"""A word of the probes, by which a place in a template's text is found again."""
THOUGHT = "Thatthought"
ASK = Message(role="user", content="Which?")
SAY = Message(role="assistant", content=MARK)
NEXT = Message(role="user", content="And then?")

_ARGUMENTS: dict[str, Any] = {
    "flag": True,
    "off": False,
    "none": None,
    "count": -3,
    "ratio": 0.5,
    "nested": {"deep": [1, "zwei", {"x": None, "y": [True]}]},
    "words": "a \"quoted\" \\ äöü 日本 's'\nand a line",
    "at": MARK,
}
_TYPES: dict[str, Any] = {
    "flag": {"type": "boolean"},
    "off": {"type": "boolean"},
    "none": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "count": {"type": "integer"},
    "ratio": {"type": "number"},
    "nested": {"type": "object"},
    "words": {"type": "string"},
    "at": {"type": "string"},
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a thing.",
        "parameters": {"type": "object", "properties": _TYPES, "required": ["at"]},
    },
}

_DRESSES = tuple(
    Dress(json_arguments=text, ids=ids, bare_calls=bare)
    for bare in (False, True)
    for ids in (False, True)
    for text in (False, True)
)


@dataclass(frozen=True, slots=True)
class Calls:
    """What was proved about a template."""

    template: Template
    """With the dress in which calls come back as they were."""
    format: Format
    takes_tools: bool
    one: bool = False
    """The template writes one call a turn: it refuses or loses a second one."""


def calling(names: Iterable[str], *, reasoning: str = "") -> Message:
    """A turn that calls so many tools; the last call holds the mark."""
    calls = [_entry(name) for name in names]
    message = Message(role="assistant", content="", tool_calls=calls)
    if reasoning:
        message["reasoning_content"] = reasoning
    return message


def results(names: Iterable[str]) -> list[Message]:
    """What came of such calls."""
    return [Message(role="tool", content=f"Seen {i}.", name=n) for i, n in enumerate(names)]


def probe_calls(tokenizer: Tokenizer) -> Calls:
    """Find the format and the dress in which a template's calls come back exactly.

    Raises:
        RenderError: no format reads what the template writes, or it refuses every call.
    """
    plain = Template(tokenizer)
    if plain.text([ASK]) == plain.text([ASK], [TOOL]):
        return Calls(_with_reasoning(plain, takes_tools=False), HERMES, takes_tools=False)
    wanted, refused, written = ["look"], None, ""
    for dress in _DRESSES:
        template = Template(tokenizer, dress)
        try:
            text = said(template, calling(wanted))
        except RenderError as error:
            refused = refused or error
            continue
        for format in FORMATS.values():
            if _reads(format, text, wanted):
                one = not _writes(template, format, ["look", "look"])
                return Calls(_with_reasoning(template, takes_tools=True), format, True, one)
        written = written or text
    if not written and refused:
        raise refused
    known = ", ".join(FORMATS)
    raise RenderError(f"it writes a tool call as {written[:120]!r}, which is none of {known}.")


def said(template: Template, message: Message) -> str:
    """What the template writes between its generation prompt and the turn's end marker."""
    before = begin(template, [TOOL])
    text = template.text([ASK, message], [TOOL], prompt=False)
    if not text.startswith(before):
        raise RenderError("its generation prompt is not how it begins an assistant turn.")
    return text[len(before) :].removesuffix(template.decode(ending(template, text)))


def begin(template: Template, tools: Sequence[Any]) -> str:
    """A conversation up to the assistant's turn, without reasoning that the prompt opens."""
    text = template.text([ASK], tools)
    for format in FORMATS.values():
        if text.rstrip().endswith(format.think):
            return text.rstrip().removesuffix(format.think)
    return text


def ending(template: Template, text: str) -> list[int]:
    """A text's ids from its last control token on; none where it has none."""
    ids, special = template.encode(text), template.special_ids()
    start = next((i for i in reversed(range(len(ids))) if ids[i] in special), len(ids))
    return ids[start:]


def _entry(name: str) -> ToolCallDict:
    return {"type": "function", "function": {"name": name, "arguments": dict(_ARGUMENTS)}}


def _writes(template: Template, format: Format, names: list[str]) -> bool:
    try:
        return _reads(format, said(template, calling(names)), names)
    except RenderError:
        return False


def _reads(format: Format, text: str, names: list[str]) -> bool:
    turn: AssistantTurn = format.parse(text, "stop", [TOOL])
    found = [(c.name, _exactly(c.arguments), c.problem) for c in turn.calls]
    return found == [(name, _exactly(_ARGUMENTS), None) for name in names] and not turn.text


def _exactly(arguments: Mapping[str, Any]) -> str:
    """Arguments to compare: as JSON, in which true is not 1."""
    return json.dumps(arguments, sort_keys=True)


def _with_reasoning(template: Template, *, takes_tools: bool) -> Template:
    """The template with the key under which it writes reasoning, where there is one."""
    for key in ("reasoning_content", "thinking"):
        dress = replace(template.dress, reasoning=key)
        if writes_reasoning(Template(template.tokenizer, dress), takes_tools=takes_tools):
            return Template(template.tokenizer, dress)
    return template


def writes_reasoning(template: Template, *, takes_tools: bool) -> bool:
    """Whether the template shows the reasoning of a message that holds some."""
    turn = Message(role="assistant", content=MARK, reasoning_content=THOUGHT)
    kinds = [turn, calling(["look"], reasoning=THOUGHT)] if takes_tools else [turn]
    tools = [TOOL] if takes_tools else []
    return any(THOUGHT in template.text([ASK, kind], tools, prompt=False) for kind in kinds)
