"""Harmony (gpt-oss): messages in channels; a call is a commentary message to a function.

In    the text of one assistant turn, which begins after the `<|start|>assistant` of its prompt
Out   AssistantTurn: analysis is reasoning, final is text, a commentary with a recipient a call
Not   a check of channels' order; a commentary without a recipient is text where no final is
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentrl.formats.call import call_with, cut_or, malformed
from agentrl.formats.format import Tools
from agentrl.formats.strict import decode
from agentrl.message import AssistantTurn, FinishReason, ToolCall

EXAMPLE = '<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{"KEY": "VALUE"}'

_START = "<|start|>"
_MESSAGE = re.compile(r"<\|(?:message|start|end|call|return)\|>")
_END = re.compile(r"<\|(?:end|call|return|start)\|>")
_ENDS = re.compile(r"\s*+(?:```)?\s*+(?:<\|(?:end|call|return|start)\|>|\Z)")
_CHANNEL = re.compile(r"<\|channel\|>\s*+([a-z]++)")
_CONSTRAIN = re.compile(r"<\|constrain\|>\s*+([^\s<]*+)")
_TO = re.compile(r"\bto=([^\s<]++)")


def parse(text: str, finish_reason: FinishReason = "stop", tools: Tools = ()) -> AssistantTurn:
    """Read a turn's messages one after the other."""
    parts, at = _Parts(text, finish_reason), 0
    while at < len(text):
        message = _MESSAGE.search(text, at)
        if message and message[0] == "<|message|>":
            at = parts.message(text[at : message.start()], message.end())
        else:
            stop = message.start() if message else len(text)
            parts.headless(text[at:stop], message is None)
            at = message.end() if message else len(text)
    words = parts.final or parts.preambles
    return AssistantTurn(
        "\n".join(w for w in words if w), tuple(parts.calls), parts.reasoning(), finish_reason
    )


@dataclass
class _Parts:
    """What has been found so far."""

    text: str
    finish_reason: FinishReason
    final: list[str] = field(default_factory=list)
    preambles: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    def message(self, header: str, start: int) -> int:
        """Read the message whose body begins at `start`; where the text goes on."""
        found = _CHANNEL.search(header)
        channel = found[1] if found else ""
        to = _TO.search(header)
        if to and channel not in ("analysis", "final"):
            return self._call(channel, to[1], header, start)
        end = _END.search(self.text, start)
        stop, after = self._bounds(end)
        words = self.text[start:stop].strip()
        places = {"analysis": self.thoughts, "commentary": self.preambles}
        places.get(channel, self.final).append(words)
        return after

    def headless(self, header: str, at_end: bool) -> None:
        """What stands outside of messages: words, or a call that was never begun."""
        to = _TO.search(header)
        if to and "<|channel|>commentary" in header:
            why = cut_or("<|message|> is missing", at_end, self.finish_reason)
            self.calls.append(malformed(_name(to[1]), why, header, EXAMPLE))
        elif "<|channel|>" not in header and header.strip() not in ("", "assistant"):
            self.final.append(header.strip())

    def reasoning(self) -> str:
        return "\n".join(t for t in self.thoughts if t)

    def _call(self, channel: str, to: str, header: str, start: int) -> int:
        name, found = _name(to), decode(self.text, start)
        at = start if found.why else found.end
        stop, after = self._bounds(_END.search(self.text, at))
        source = header + self.text[start:stop]
        why = found.why
        if not why and not _ENDS.match(self.text, found.end):
            why = "something follows the JSON object"
        why = why or _objection(header, channel)
        if why:
            why = cut_or(why, bool(found.why) and stop == len(self.text), self.finish_reason)
            self.calls.append(malformed(name, why, source, EXAMPLE))
        else:
            self.calls.append(call_with(name, found.value, source, EXAMPLE))
        return after

    def _bounds(self, end: re.Match[str] | None) -> tuple[int, int]:
        """Where a body stops, and where the text goes on."""
        if end is None:
            return len(self.text), len(self.text)
        return end.start(), end.start() if end[0] == _START else end.end()


def _objection(header: str, channel: str) -> str:
    """What keeps a header from being a call's; empty where nothing does."""
    if channel != "commentary":
        return "a call goes to the commentary channel"
    kinds = {"recipients": _TO, "channels": _CHANNEL, "constraints": _CONSTRAIN}
    for kind, pattern in kinds.items():
        if len(set(pattern.findall(header))) > 1:
            return f"the header names two {kind}"
    odd = set(_CONSTRAIN.findall(header)) - {"json"}
    return f"arguments are json, not {odd.pop()[:40]}" if odd else ""


def _name(recipient: str) -> str:
    return recipient.removeprefix("functions.")
