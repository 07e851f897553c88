"""A model's chat template: messages → text, in the dress that it asks for.

In    a Hugging Face tokenizer with a chat template; messages as the framework keeps them
Out   Template: texts and token ids; Dress: how calls and reasoning must be handed to it
Not   the finding of that dress: probe.py proves it

The framework keeps a call's arguments as a dict, its result without an id, and reasoning as
`reasoning_content`. Some templates want arguments as JSON text, ids on calls and results, or
the reasoning under another name; they get a dressed copy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from agentrl.errors import RenderError, blame
from agentrl.marks import ZERO_WIDTH, Marks
from agentrl.memo import Memo
from agentrl.message import Message

_THOUGHTS = ("<think>", "</think>")
"""Marks even where they are no tokens: templates cut words at them."""


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    name_or_path: str
    chat_template: Any
    eos_token_id: int | None
    all_special_ids: list[int]

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        """Messages to text."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Text to ids."""
        ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        """Ids to text."""
        ...


@dataclass(frozen=True, slots=True)
class Dress:
    """How a template wants to be told of calls and reasoning."""

    json_arguments: bool = False
    """Arguments as JSON text, not as a mapping."""
    ids: bool = False
    """An id on every call, and on its result."""
    bare_calls: bool = False
    """No words beside calls: the template writes only one of the two."""
    reasoning: str = "reasoning_content"
    """The key of a message's reasoning."""


@dataclass(frozen=True)
class Template:
    """A tokenizer's chat template, and the dress it wants."""

    tokenizer: Tokenizer
    dress: Dress = field(default_factory=Dress)

    def text(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        prompt: bool = True,
        ids: Sequence[str] = (),
    ) -> str:
        """The conversation's text; with `prompt` up to where the assistant speaks next.

        `ids` are those of the last turn's calls where the policy chose them.

        Raises:
            RenderError: the template refuses the conversation.
        """
        with blame(RenderError, "its template refuses a conversation"):
            return str(
                self.tokenizer.apply_chat_template(
                    dressed(messages, self.dress, ids),
                    tools=list(tools) or None,
                    add_generation_prompt=prompt,
                    tokenize=False,
                )
            )

    def encode(self, text: str) -> list[int]:
        """Text to ids, marks in it to theirs."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text, marks kept."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False)) if ids else ""

    def special_ids(self) -> set[int]:
        """Ids of all control tokens, also of those that have no role of their own."""
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        return {*self.tokenizer.all_special_ids, *(i for i, t in added.items() if t.special)}

    @cached_property
    def memo(self) -> Memo[str]:
        """Renderings that are asked for again and again."""
        return Memo(256)

    @cached_property
    def marks(self) -> Marks:
        """What must not come from words: control tokens, and added ones that it writes itself.

        Other added tokens (runs of spaces, HTML) are words like any other.
        """
        source, special = str(self.tokenizer.chat_template), self.special_ids()
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        spelled = {i: self.decode([i]) for i in special} | {
            i: t.content for i, t in added.items() if i in special or t.content in source
        }
        spelled = {i: text for i, text in spelled.items() if len(text.strip()) > 1}
        core = getattr(self.tokenizer, "backend_tokenizer", None)
        return Marks(
            tuple({*spelled.values(), *(text for text in _THOUGHTS if text in source)}),
            frozenset(spelled),
            self.encode,
            breaker=ZERO_WIDTH if special.isdisjoint(self.encode(ZERO_WIDTH)) else " ",
            loose=bool(getattr(core, "normalizer", None))
            and any(added[i].normalized for i in spelled if i in added),
        )

    def __str__(self) -> str:
        return str(getattr(self.tokenizer, "name_or_path", "") or "model")


def difference(tokenizer: Any, ours: Sequence[int], full: Sequence[int]) -> str | None:
    """Where two renderings differ in structure, or None.

    Special tokens and their order must agree; words between them must read the same but
    may be cut into other tokens, as sampled words are.
    """
    template = Template(tokenizer)
    mine, theirs = _pieces(template, ours), _pieces(template, full)
    for position, (a, b) in enumerate(zip(mine, theirs, strict=False)):
        if a != b:
            return f"piece {position} is {a!r} where the template has {b!r}"
    if len(mine) != len(theirs):
        return f"{len(mine)} pieces where the template has {len(theirs)}"
    return None


def _pieces(template: Template, ids: Sequence[int]) -> list[str | int]:
    special = template.special_ids()
    out: list[str | int] = []
    words: list[int] = []
    for token in [*ids, -1]:
        if token in special or token == -1:
            out.append(template.decode(words))
            out.append(token)
            words = []
        else:
            words.append(token)
    return out[:-1]


def dressed(messages: Sequence[Message], dress: Dress, ids: Sequence[str] = ()) -> list[Any]:
    """The messages as a template wants them; unchanged ones are the same objects."""
    if dress == Dress():
        return list(messages)
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    names, waiting, out = _numbered(), list[str](), list[Any]()
    for index, message in enumerate(messages):
        copy: dict[str, Any] = dict(message)
        if "tool_calls" in message:
            chosen = iter(ids if index == last else ())
            copy["tool_calls"] = [_call(call, dress) for call in message["tool_calls"]]
            waiting = [next(chosen, "") or next(names) for _ in copy["tool_calls"]]
            if dress.ids:
                for call, name in zip(copy["tool_calls"], waiting, strict=True):
                    call["id"] = name
            if dress.bare_calls:
                copy["content"] = None
        if dress.ids and message["role"] == "tool":
            # A result of a call that was malformed has no call in the message before it.
            copy["tool_call_id"] = waiting.pop(0) if waiting else next(names)
        if "reasoning_content" in copy:
            copy[dress.reasoning] = copy.pop("reasoning_content")
        out.append(copy)
    return out


def regular(messages: Sequence[Message]) -> list[Message]:
    """A conversation for templates that refuse what a policy may do in one.

    They take no result without a call, and a malformed call, answered as a result when it
    happened, is not in the message that a later rendering sees: such results become a user's
    words. Nor do some take a thought beside words and a call: there the thought goes.
    """
    out: list[Message] = []
    called = False
    for message in messages:
        if message["role"] == "tool" and not called:
            joined = out and out[-1]["role"] == "user"
            before = out.pop()["content"] + "\n" if joined else ""
            out.append(Message(role="user", content=before + message["content"]))
            continue
        if message["role"] != "tool":
            called = bool(message.get("tool_calls"))
        if called and message["content"] and "reasoning_content" in message:
            message = message.copy()
            del message["reasoning_content"]
        out.append(message)
    return out


def _call(call: Mapping[str, Any], dress: Dress) -> dict[str, Any]:
    function = dict(call["function"])
    if dress.json_arguments:
        function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": function}


def _numbered() -> Iterator[str]:
    """Nine letters and digits each: some templates take no other length."""
    number = 0
    while True:
        yield f"call{number:05d}"
        number += 1
