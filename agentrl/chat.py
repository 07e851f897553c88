"""Messages ↔ the wire of chat completions, with native tool calls.

In    messages and schemas; a server's answer as JSON
Out   a request's body; Reply: the turn as an AssistantTurn, ids of its calls, what was used
Not   a parser of calls in text: calls are those that the server names as such

A call whose arguments are no JSON object is malformed, as a local policy's would be, and the same
words answer it. In what the server reads afterwards that call stands with empty arguments, since
servers refuse a history that is not JSON; the answer to it repeats what was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrl.config import EndpointSection
from agentrl.errors import EnvironmentFault
from agentrl.formats.call import call_with
from agentrl.formats.call import malformed as refused
from agentrl.formats.strict import decode_all
from agentrl.message import AssistantTurn, FinishReason, Message, ToolCall


@dataclass(frozen=True, slots=True)
class Usage:
    """What answers cost, as the server counts."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt's."""
    completion_tokens: int = 0
    filtered: int = 0
    """Turns that the server cut or refused for their content."""
    uncounted: int = 0
    """Answers that say nothing of tokens."""

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        names = Usage.__slots__
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def cost(self, prices: EndpointSection) -> float:
        """In the currency of the prices, which are for a million tokens."""
        fresh = self.prompt_tokens - self.cached_tokens
        paid = fresh * prices.price_in + self.cached_tokens * prices.price_cached
        return (paid + self.completion_tokens * prices.price_out) / 1e6


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    turn: AssistantTurn
    ids: tuple[str, ...]
    """Of its calls, in order."""
    usage: Usage
    context: int
    """Tokens of the conversation up to and with this turn; 0 where the server does not say."""


@dataclass(slots=True)
class Talk:
    """A conversation as the server reads it."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    _count: int = 0

    def hear(self, news: Sequence[Message], ids: Sequence[str] = ()) -> None:
        """Add what the environment says; results are of the calls with these ids, in order."""
        waiting = iter(ids)
        for message in news:
            if message["role"] == "tool":
                name = next(waiting)
                said = {"role": "tool", "tool_call_id": name, "content": message["content"]}
                self.messages.append(said)
            else:
                self.messages.append({"role": message["role"], "content": message["content"]})

    def say(self, reply: Reply) -> None:
        """Add what the policy said."""
        turn = reply.turn
        said: dict[str, Any] = {"role": "assistant", "content": turn.text}
        if turn.calls:
            said["tool_calls"] = [
                {
                    "id": name,
                    "type": "function",
                    "function": {
                        "name": call.name or "unnamed",
                        "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
                    },
                }
                for call, name in zip(turn.calls, reply.ids, strict=True)
            ]
        self.messages.append(said)

    def numbered(self) -> Iterator[str]:
        """Ids for calls that the server gave none."""
        while True:
            self._count += 1
            yield f"call{self._count:05d}"


def body_of(
    settings: EndpointSection,
    model: str,
    talk: Talk,
    tools: Sequence[Mapping[str, Any]],
    *,
    temperature: float,
    max_tokens: int,
    seed: int,
) -> dict[str, Any]:
    """A request's JSON."""
    body: dict[str, Any] = {
        "model": model,
        "messages": talk.messages,
        "temperature": temperature,
        settings.max_tokens_name: max_tokens,
    }
    if tools:
        body["tools"] = list(tools)
    if settings.send_seed:
        body["seed"] = seed % 2**31
    return body


def reply_of(answer: Mapping[str, Any], talk: Talk) -> Reply:
    """A server's answer as a turn.

    Raises:
        EnvironmentFault: it is no chat completion.
    """
    try:
        choice = answer["choices"][0]
        said = choice["message"]
        calls, ids = _calls(said.get("tool_calls") or (), talk)
        text = _text(said.get("content")) or str(said.get("refusal") or "")
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise EnvironmentFault(
            f"the endpoint's answer is no chat completion ({error!r})"
        ) from error
    finish = choice.get("finish_reason")
    filtered = finish == "content_filter"
    reason: FinishReason = "length" if finish == "length" else "stop"
    thoughts = said.get("reasoning_content") or said.get("reasoning") or ""
    turn = AssistantTurn(text, () if filtered else calls, str(thoughts), reason)
    usage, context = _usage(answer.get("usage"), filtered)
    return Reply(turn, () if filtered else ids, usage, context)


def _text(content: Any) -> str:
    """A message's words; some servers write them in parts, among which may be other things."""
    if not isinstance(content, list):
        return str(content or "")
    parts = [part if isinstance(part, Mapping) else {"text": part} for part in content]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _calls(
    written: Sequence[Mapping[str, Any]], talk: Talk
) -> tuple[tuple[ToolCall, ...], tuple[str, ...]]:
    calls, ids, fresh = list[ToolCall](), list[str](), talk.numbered()
    for one in written:
        calls.append(_call(one["function"]))
        given = one.get("id")
        sound = isinstance(given, str) and given and given not in ids
        ids.append(str(given) if sound else next(fresh))
    return tuple(calls), tuple(ids)


def _call(function: Mapping[str, Any]) -> ToolCall:
    name, written = str(function.get("name") or ""), function.get("arguments")
    if isinstance(written, dict):
        return call_with(name, written, str(written), "")
    text = "{}" if written is None or written == "" else str(written)
    found = decode_all(text)
    if found.why:
        return refused(name, found.why, text)
    return call_with(name, found.value, text, "")


def _usage(said: Any, filtered: bool) -> tuple[Usage, int]:
    if not isinstance(said, Mapping):
        return Usage(requests=1, filtered=filtered, uncounted=1), 0
    prompt, completion = _whole(said, "prompt_tokens"), _whole(said, "completion_tokens")
    details = said.get("prompt_tokens_details")
    cached = _whole(details, "cached_tokens") if isinstance(details, Mapping) else 0
    usage = Usage(
        requests=1,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        filtered=filtered,
    )
    return usage, prompt + completion


def _whole(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    return max(0, value) if isinstance(value, int) else 0
