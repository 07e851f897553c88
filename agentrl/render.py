"""Messages → token ids and back, exactly as the model's own chat template has it.

In    a Hugging Face tokenizer with a chat template
Out   Renderer: `render` a conversation, `extend` a token sequence, `parse` a sampled turn
Not   an encoder of sampled text: ids the policy sampled are never decoded and encoded again

How the template writes calls is proved (probe.py). A continuation is learned from a synthetic
conversation: what the template puts between the end of an assistant turn and the next
generation prompt is the suffix. At construction every kind of continuation is rendered both
ways and compared; a template that differs after a tool's result is refused with the reason,
and one that rewrites history (it drops earlier reasoning, or moves the tools when the user
speaks again) makes `extend` answer None, so that the caller begins a new branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from agentrl.errors import RenderError, UsageError
from agentrl.formats.format import Format
from agentrl.memo import Memo
from agentrl.message import AssistantTurn, FinishReason, Message, ToolCall
from agentrl.probe import (
    ASK,
    MARK,
    NEXT,
    SAY,
    THOUGHT,
    TOOL,
    Calls,
    begin,
    calling,
    ending,
    probe_calls,
    results,
    writes_reasoning,
)
from agentrl.template import Template, Tokenizer, difference, regular

CLIP_NOTICE = "\n[... {cut} tokens left out ...]\n"
ONE_CALL = "only one call per turn: the first one was run. Write this one again in your next turn"

OPENINGS = 64
"""Conversations whose ids are kept: all members of a group begin with the same."""

_NO_MARKER = "its template puts no end marker after an assistant turn."
_TAIL = 32
"""Tokens of a prompt in which the opening of reasoning is looked for."""


@dataclass(frozen=True, slots=True)
class Suffix:
    """Tokens between a sampled turn and the next one; none of them is trained on."""

    scaffold: tuple[int, ...]
    """What closes the assistant's turn and was not sampled."""
    observation: tuple[int, ...]
    """The new messages and the next generation prompt."""
    searched: int = 0
    """How many of the ids before it are known to hold no reasoning that a template would drop."""

    @property
    def ids(self) -> tuple[int, ...]:
        """All of it, in order."""
        return self.scaffold + self.observation


@dataclass(frozen=True)
class Renderer:
    """One tokenizer's template, checked. Build it with `renderer_for`."""

    calls: Calls
    closing: tuple[int, ...]
    """What ends a turn of words; the first id is the end marker that policies sample."""
    closing_call: tuple[int, ...]
    """What ends a turn that calls tools; the same in most templates."""
    drops_reasoning: bool = False
    """The template removes earlier reasoning once the user speaks again."""
    drops_at_results: bool = False
    """It removes a turn's reasoning already when the results of its calls follow."""
    anew_at_user: bool = False
    """It rewrites more than reasoning when the user speaks again."""
    ends: tuple[int, ...] = ()
    """Other ids that end a turn, and that stand in for the template's own end marker."""
    opening: str = ""
    """What the template writes where the assistant speaks next."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer whose template this is."""
        return self.calls.template.tokenizer

    @property
    def format(self) -> Format:
        """How the template writes calls."""
        return self.calls.format

    @property
    def takes_tools(self) -> bool:
        """Whether the template tells the policy of tools."""
        return self.calls.takes_tools

    @cached_property
    def _openings(self) -> Memo[list[int]]:
        return Memo(OPENINGS)

    @cached_property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Ids that end a turn: the template's end markers, its format's, the end of text."""
        eos = self.tokenizer.eos_token_id
        rest = () if eos is None else (eos,)
        ids = (self.closing[0], *rest, self.closing_call[0], *self.ends)
        return tuple(dict.fromkeys(ids))

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """A conversation's ids, up to and with the next generation prompt.

        What messages and tools say never becomes a control token (marks.py).

        Raises:
            UsageError: tools are given and the template has no place for them.
        """
        template = self.calls.template
        if tools and not self.takes_tools:
            raise UsageError(
                f"{template}: its chat template has no place for tools. "
                "The policy would never hear of them. Use a tool-tuned model."
            )
        said = [list(messages), list(tools)]
        return list(
            self._openings.of(
                repr(said),
                lambda: template.marks.kept_out(said, lambda said: self._whole(*said), list),
            )
        )

    def extend(
        self,
        previous_ids: Sequence[int],
        finish_reason: FinishReason,
        new_messages: Sequence[Message],
        *,
        sampled: int | None = None,
        searched: int = 0,
    ) -> Suffix | None:
        """What follows `previous_ids` (they end with a sampled turn), or None: begin anew.

        All new messages are rendered together, since templates join neighbouring results.

        Args:
            previous_ids: The branch so far.
            finish_reason: How its last turn ended.
            new_messages: What follows it.
            sampled: How many ids its last turn has; without it all of them are looked through.
            searched: That of the suffix before, so that no id is looked at in every turn.
        """
        drops = self._drops(new_messages)
        if drops is None or (drops and self._reasons(previous_ids[searched:])):
            return None
        said = previous_ids if sampled is None else previous_ids[len(previous_ids) - sampled :]
        suffix = self._suffix(said, finish_reason, new_messages)
        if suffix is None or not drops:
            return suffix and replace(suffix, searched=searched)
        return replace(suffix, searched=len(previous_ids))

    def _suffix(
        self, said: Sequence[int], finish_reason: FinishReason, new_messages: Sequence[Message]
    ) -> Suffix | None:
        before, names = self._closing_before(new_messages), self._ids(said)
        closing, observation = self.calls.template.marks.kept_out(
            list(new_messages),
            lambda news: _after_turn(self.calls, before, news, names),
            lambda suffix: (*suffix[0], *suffix[1]),
        )
        last = said[-1] if finish_reason == "stop" and said else None
        if last == closing[0]:
            return Suffix(closing[1:], observation)
        if last in (self.closing[0], self.closing_call[0]):
            return None  # In an earlier turn the template has another end marker than sampled.
        return Suffix(() if last in self.ends else closing, observation)

    def parse(
        self,
        ids: Sequence[int],
        finish_reason: FinishReason,
        tools: Sequence[Mapping[str, Any]] = (),
        prompt_ids: Sequence[int] = (),
    ) -> AssistantTurn:
        """The turn that these sampled ids say; text only, the ids stay as they are.

        `tools` give bare text its types, where a format writes arguments so. `prompt_ids` is
        what was sampled from: where it opens reasoning, the turn begins inside of that.
        """
        template, think = self.calls.template, self.format.think
        ended = finish_reason == "stop" and ids and ids[-1] in self.stop_token_ids
        text = template.decode(ids[:-1] if ended else ids)
        if template.decode(prompt_ids[-_TAIL:]).rstrip().endswith(think):
            text = think + text
        turn = self.format.parse(text, finish_reason, tools)
        return _one_call(turn) if self.calls.one else turn

    def clip(self, text: str, max_tokens: int) -> str:
        """The text, or its head and tail with a notice, in about `max_tokens` tokens."""
        if len(text.encode("utf-8", "replace")) <= max_tokens:
            return text  # A token is a byte at least.
        template = self.calls.template
        ids = template.encode(template.marks.broken(text))
        if len(ids) <= max_tokens:
            return text
        head = max_tokens // 2
        tail = max_tokens - head
        notice = CLIP_NOTICE.format(cut=len(ids) - max_tokens)
        return template.decode(ids[:head]) + notice + template.decode(ids[-tail:])

    def _whole(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        template = self.calls.template
        try:
            return template.encode(template.text(messages, tools))
        except RenderError:
            mended = regular(messages)
            if mended == list(messages):
                raise
            return template.encode(template.text(mended, tools))

    def _drops(self, news: Sequence[Message]) -> bool | None:
        """Whether reasoning goes from what was before; None where more than that is rewritten."""
        speaks = any(m["role"] != "tool" for m in news)
        if speaks and self.anew_at_user:
            return None
        return self.drops_reasoning if speaks else self.drops_at_results

    def _reasons(self, ids: Sequence[int]) -> bool:
        text, form = self.calls.template.decode(ids), self.format
        if self.opening.rstrip().endswith(form.think):
            return form.think in text
        # What a generation prompt holds was not sampled: some begin with an empty thought.
        return form.thought in text.replace(self.opening, "")

    def _closing_before(self, news: Sequence[Message]) -> tuple[int, ...]:
        return self.closing_call if _are_results(news) else self.closing

    def _ids(self, previous_ids: Sequence[int]) -> list[str]:
        template = self.calls.template
        return self.format.call_ids(template.decode(previous_ids)) if template.dress.ids else []


def renderer_for(tokenizer: Any) -> Renderer:
    """Learn a tokenizer's template and prove that turns can be appended exactly.

    Raises:
        UsageError: the model cannot be used for multi-turn play; the message says why.
    """
    name = Template(tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(f"{name}: it has no chat template. Use an instruction-tuned model.")
    try:
        closing = _closing(name)
        calls = probe_calls(tokenizer)
        renderer = Renderer(
            calls,
            closing,
            _closing_call(calls, closing),
            ends=_ends(calls),
            opening=name.text([ASK]).removeprefix(name.text([ASK], prompt=False)),
        )
        return _checked(renderer)
    except RenderError as error:
        raise UsageError(f"{name}: {error} Use another model, or mend its template.") from error


def _closing(template: Template) -> tuple[int, ...]:
    text = template.text([ASK, SAY], prompt=False)
    tail = text.rpartition(MARK)[2]
    closing = template.encode(tail)
    if MARK not in text or not closing:
        raise RenderError(_NO_MARKER)
    if closing[0] not in template.special_ids():
        raise RenderError(f"its template ends an assistant turn with {tail!r}, not one token.")
    return tuple(closing)


def _closing_call(calls: Calls, closing: tuple[int, ...]) -> tuple[int, ...]:
    if not calls.takes_tools:
        return closing
    text = calls.template.text([ASK, calling(["look"])], [TOOL], prompt=False)
    return tuple(ending(calls.template, text))


def _ends(calls: Calls) -> tuple[int, ...]:
    """Ids of the format's other end tokens, where the tokenizer has them."""
    special = calls.template.special_ids()
    ids = [calls.template.encode(mark) for mark in calls.format.ends]
    return tuple(i[0] for i in ids if len(i) == 1 and i[0] in special)


def _checked(renderer: Renderer) -> Renderer:
    """The renderer with what its template rewrites, or a RenderError."""
    template, takes_tools = renderer.calls.template, renderer.takes_tools
    fields = writes_reasoning(template, takes_tools=takes_tools)
    thought = _thought(SAY, renderer.format, fields)
    renderer = replace(
        renderer,
        drops_reasoning=THOUGHT not in template.text([ASK, thought, NEXT]),
        anew_at_user=bool(_mismatch(renderer, SAY, [NEXT])),
    )
    if not takes_tools:
        return renderer
    for names in (["look"], ["look", "look"]):
        turn = calling(names[:1] if renderer.calls.one else names)
        where = _mismatch(renderer, turn, results(names))
        if where:
            raise RenderError(f"appending tool results differs from a full render: {where}.")
    thought = _thought(calling(["look"]), renderer.format, fields)
    text = template.text([ASK, thought, *results(["look"])], [TOOL])
    return replace(renderer, drops_at_results=THOUGHT not in text)


def _thought(message: Message, format: Format, fields: bool) -> Message:
    """The message with a thought: in a field of its own where the template has one."""
    out = message.copy()
    if fields:
        out["reasoning_content"] = THOUGHT
    else:
        out["content"] = f"{format.think}\n{THOUGHT}\n{format.thought}\n\n{message['content']}"
    return out


def _mismatch(renderer: Renderer, turn: Message, news: Sequence[Message]) -> str | None:
    """Where an appended continuation differs from the full render, or None."""
    template = renderer.calls.template
    tools = [TOOL] if renderer.takes_tools else []
    before = begin(template, tools)
    text = template.text([ASK, turn, *news], tools)
    suffix = (*_after_turn(renderer.calls, renderer._closing_before(news), news),)
    closed = tuple(i for part in suffix for i in part)
    tail = template.decode(closed)
    if not text.startswith(before):
        return "its template changes an earlier turn when a message follows"
    if not text.endswith(tail):
        return f"the full render does not end with {tail!r}"
    words = text[len(before) :].removesuffix(tail)
    ours = [*template.encode(before), *template.encode(words), *closed]
    return difference(template.tokenizer, ours, template.encode(text))


def _after_turn(
    calls: Calls, closing: tuple[int, ...], news: Sequence[Message], ids: Sequence[str] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What closes a turn that `news` follow, and the news up to the next generation prompt."""
    template, turn = calls.template, SAY
    if _are_results(news):
        names = [m.get("name", "look") for m in news if m["role"] == "tool"]
        turn = calling(names[:1] if calls.one else names)
    # A template may dress the last turn otherwise than an earlier one (an empty thought), so
    # what follows is counted from the mark, not from the start.
    before = template.memo.of(
        repr((turn, ids)), lambda: _from_mark(template.text([ASK, turn], prompt=False, ids=ids))
    )
    after = _from_mark(template.text([ASK, turn, *news], ids=ids))
    if after.startswith(before):
        return closing, tuple(template.encode(after[len(before) :]))
    other = template.encode(after.removeprefix(MARK))
    if turn is SAY and len(closing) == 1 and other and other[0] in template.special_ids():
        return (other[0],), tuple(other[1:])
    raise RenderError("its template changes an earlier turn when a message follows.")


def _from_mark(text: str) -> str:
    return text[text.find(MARK) :]


def _are_results(news: Sequence[Message]) -> bool:
    return bool(news) and news[0]["role"] == "tool"


def _one_call(turn: AssistantTurn) -> AssistantTurn:
    calls: list[ToolCall] = []
    called = False
    for call in turn.calls:
        calls.append(ToolCall(call.name, {}, ONE_CALL) if called and not call.problem else call)
        called = called or call.problem is None
    return replace(turn, calls=tuple(calls))
