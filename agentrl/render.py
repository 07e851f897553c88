"""Messages → token ids and back, exactly as the model's own chat template has it.

In    a Hugging Face tokenizer with a chat template
Out   Renderer: `render` a conversation, `extend` a token sequence, `parse` a sampled turn
Not   an encoder of sampled text: ids the policy sampled are never decoded and encoded again

A continuation is learned from a synthetic conversation: what the template puts between
the end of an assistant turn and the next generation prompt is the suffix. At construction
every kind of continuation is rendered both ways and compared; a template that differs is
refused with the reason, and one that rewrites history (it drops earlier reasoning when the
user speaks again) makes `extend` answer None, so that the caller begins a new branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentrl.formats import hermes
from agentrl.errors import RenderError, UsageError, blame
from agentrl.message import AssistantTurn, FinishReason, Message

THINK_END = "</think>"
CLIP_NOTICE = "\n[... {cut} tokens left out ...]\n"

_ASK = Message(role="user", content="Which?")
_SAY = Message(role="assistant", content="Thismark.")
_MARK = "Thismark."
_CALL: Message = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": {"at": "it"}}}],
}
_RESULT = Message(role="tool", content="Seen one.", name="look")
_AGAIN = Message(role="tool", content="Seen two.", name="look")
_NEXT = Message(role="user", content="And then?")
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a thing.",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string"}},
            "required": ["at"],
        },
    },
}


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
class Suffix:
    """Tokens between a sampled turn and the next one; none of them is trained on."""

    scaffold: tuple[int, ...]
    """What closes the assistant's turn and was not sampled."""
    observation: tuple[int, ...]
    """The new messages and the next generation prompt."""

    @property
    def ids(self) -> tuple[int, ...]:
        """All of it, in order."""
        return self.scaffold + self.observation


@dataclass(frozen=True)
class Renderer:
    """One tokenizer's template, checked. Build it with `renderer_for`."""

    tokenizer: Tokenizer
    closing: tuple[int, ...]
    """What ends an assistant turn; the first id is the end marker that policies sample."""
    takes_tools: bool
    drops_reasoning: bool
    """The template removes earlier reasoning once the user speaks again."""

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Ids that end a turn: the template's end marker, and the tokenizer's end of text."""
        eos = self.tokenizer.eos_token_id
        rest = () if eos is None or eos == self.closing[0] else (eos,)
        return (self.closing[0], *rest)

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """A conversation's ids, up to and with the next generation prompt.

        Raises:
            UsageError: tools are given and the template has no place for them.
        """
        if tools and not self.takes_tools:
            raise UsageError(
                f"{_name(self.tokenizer)}: its chat template has no place for tools. "
                "The policy would never hear of them. Use a tool-tuned model."
            )
        return _encode(self.tokenizer, _text(self.tokenizer, messages, tools))

    def extend(
        self,
        previous_ids: Sequence[int],
        finish_reason: FinishReason,
        new_messages: Sequence[Message],
    ) -> Suffix | None:
        """What follows `previous_ids` (they end with a sampled turn), or None: begin anew.

        All new messages are rendered together, since templates join neighbouring results.
        """
        speaks = any(m["role"] != "tool" for m in new_messages)
        if speaks and self.drops_reasoning and self._reasons(previous_ids):
            return None
        closed = finish_reason == "stop" and previous_ids and previous_ids[-1] == self.closing[0]
        return Suffix(
            scaffold=self.closing[1:] if closed else self.closing,
            observation=_after_turn(self.tokenizer, new_messages),
        )

    def parse(self, ids: Sequence[int], finish_reason: FinishReason) -> AssistantTurn:
        """The turn that these sampled ids say; text only, the ids stay as they are."""
        ended = finish_reason == "stop" and ids and ids[-1] in self.stop_token_ids
        text = self.tokenizer.decode(list(ids[:-1] if ended else ids), skip_special_tokens=False)
        return hermes.parse(text, finish_reason)

    def clip(self, text: str, max_tokens: int) -> str:
        """The text, or its head and tail with a notice, in about `max_tokens` tokens."""
        ids = _encode(self.tokenizer, text)
        if len(ids) <= max_tokens:
            return text
        head = max_tokens // 2
        tail = max_tokens - head
        notice = CLIP_NOTICE.format(cut=len(ids) - max_tokens)
        return _decode(self.tokenizer, ids[:head]) + notice + _decode(self.tokenizer, ids[-tail:])

    def _reasons(self, ids: Sequence[int]) -> bool:
        return THINK_END in _decode(self.tokenizer, list(ids))


def renderer_for(tokenizer: Any) -> Renderer:
    """Learn a tokenizer's template and prove that turns can be appended exactly.

    Raises:
        UsageError: the model cannot be used for multi-turn play; the message says why.
    """
    name = _name(tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(f"{name}: it has no chat template. Use an instruction-tuned model.")
    try:
        closing = _closing(tokenizer)
        takes_tools = _takes_tools(tokenizer)
        _check_continuations(tokenizer, closing, takes_tools)
    except RenderError as error:
        raise UsageError(f"{name}: {error} Use another model, or mend its template.") from error
    return Renderer(tokenizer, closing, takes_tools, _drops_reasoning(tokenizer))


def difference(tokenizer: Any, ours: Sequence[int], full: Sequence[int]) -> str | None:
    """Where two renderings differ in structure, or None.

    Special tokens and their order must agree; words between them must read the same but
    may be cut into other tokens, as sampled words are.
    """
    special = set(tokenizer.all_special_ids)
    mine, theirs = _pieces(tokenizer, ours, special), _pieces(tokenizer, full, special)
    for position, (a, b) in enumerate(zip(mine, theirs, strict=False)):
        if a != b:
            return f"piece {position} is {a!r} where the template has {b!r}"
    if len(mine) != len(theirs):
        return f"{len(mine)} pieces where the template has {len(theirs)}"
    return None


def _pieces(tokenizer: Any, ids: Sequence[int], special: set[int]) -> list[str | int]:
    out: list[str | int] = []
    words: list[int] = []
    for token in [*ids, -1]:
        if token in special or token == -1:
            out.append(_decode(tokenizer, words))
            out.append(token)
            words = []
        else:
            words.append(token)
    return out[:-1]


def _closing(tokenizer: Any) -> tuple[int, ...]:
    text = _text(tokenizer, [_ASK, _SAY], (), generation_prompt=False)
    tail = text.rpartition(_MARK)[2]
    closing = _encode(tokenizer, tail)
    if _MARK not in text or not closing:
        raise RenderError("its template puts no end marker after an assistant turn.")
    if closing[0] not in tokenizer.all_special_ids:
        raise RenderError(f"its template ends an assistant turn with {tail!r}, not one token.")
    return tuple(closing)


def _takes_tools(tokenizer: Any) -> bool:
    bare = _text(tokenizer, [_ASK], ())
    if bare == _text(tokenizer, [_ASK], [_TOOL]):
        return False
    turn = _assistant_text(tokenizer, _CALL)
    found = hermes.parse(turn, "stop").calls
    if [(c.name, dict(c.arguments), c.problem) for c in found] != [("look", {"at": "it"}, None)]:
        raise RenderError(f"it writes a tool call as {turn!r}, which is not Hermes JSON in tags.")
    return True


def _assistant_text(tokenizer: Any, message: Message) -> str:
    """What the template writes between the generation prompt and the end marker."""
    before = _text(tokenizer, [_ASK], [_TOOL])
    text = _text(tokenizer, [_ASK, message], [_TOOL], generation_prompt=False)
    if not text.startswith(before):
        raise RenderError("its generation prompt is not how it begins an assistant turn.")
    tail = _decode(tokenizer, list(_closing(tokenizer)))
    return text[len(before) :].removesuffix(tail)


def _check_continuations(tokenizer: Any, closing: tuple[int, ...], takes_tools: bool) -> None:
    kinds: list[tuple[Message, list[Message]]] = [(_SAY, [_NEXT])]
    if takes_tools:
        kinds += [(_CALL, [_RESULT]), (_CALL, [_RESULT, _AGAIN])]
    tools = [_TOOL] if takes_tools else []
    for turn, news in kinds:
        said = _assistant_text(tokenizer, turn) if takes_tools else str(turn["content"])
        ours = [
            *_encode(tokenizer, _text(tokenizer, [_ASK], tools)),
            *_encode(tokenizer, said),
            *closing,
            *_after_turn(tokenizer, news),
        ]
        full = _encode(tokenizer, _text(tokenizer, [_ASK, turn, *news], tools))
        where = difference(tokenizer, ours, full)
        if where:
            roles = " and ".join(m["role"] for m in news)
            raise RenderError(f"appending a {roles} message differs from a full render: {where}.")


def _drops_reasoning(tokenizer: Any) -> bool:
    thought = Message(role="assistant", content=f"<think>\nHm.\n{THINK_END}\n\nSo.")
    start = _text(tokenizer, [_ASK, thought], (), generation_prompt=False)
    return not _text(tokenizer, [_ASK, thought, _NEXT], ()).startswith(start)


def _after_turn(tokenizer: Any, news: Sequence[Message]) -> tuple[int, ...]:
    results = bool(news) and news[0]["role"] == "tool"
    turn = _CALL if results else _SAY
    before = _text(tokenizer, [_ASK, turn], (), generation_prompt=False)
    after = _text(tokenizer, [_ASK, turn, *news], ())
    if not results:
        # A template may dress the last turn otherwise than an earlier one (an empty
        # thought), so words are counted from the marker, not from the start.
        before, after = (t[t.find(_MARK) :] for t in (before, after))
    if not after.startswith(before):
        raise RenderError("its template changes an earlier turn when a message follows.")
    return tuple(_encode(tokenizer, after[len(before) :]))


def _text(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    *,
    generation_prompt: bool = True,
) -> str:
    with blame(RenderError, "its template refuses a conversation"):
        return str(
            tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) or None,
                add_generation_prompt=generation_prompt,
                tokenize=False,
            )
        )


def _encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False)) if ids else ""


def _name(tokenizer: Any) -> str:
    return str(getattr(tokenizer, "name_or_path", "") or "model")
