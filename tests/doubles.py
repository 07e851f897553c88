"""Tiny honest doubles: a tokenizer one can read, templates as functions, small environments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Template = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]] | None, bool], str]

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")


def hermes_template(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    generation_prompt: bool,
) -> str:
    """ChatML with tools in the system turn; neighbouring results share one user turn."""
    text = ""
    messages = list(messages)
    system = messages.pop(0)["content"] if messages[0]["role"] == "system" else ""
    if tools:
        system += "\nTools:\n" + "\n".join(json.dumps(t) for t in tools)
    if system:
        text += f"<|im_start|>system\n{system}<|im_end|>\n"
    for index, message in enumerate(messages):
        text += _turn(messages, index, message)
    return text + ("<|im_start|>assistant\n" if generation_prompt else "")


def _turn(messages: Sequence[Mapping[str, Any]], index: int, message: Mapping[str, Any]) -> str:
    if message["role"] != "tool":
        return f"<|im_start|>{message['role']}\n{_content(message)}<|im_end|>\n"
    first = messages[index - 1]["role"] != "tool"
    last = index + 1 == len(messages) or messages[index + 1]["role"] != "tool"
    return (
        ("<|im_start|>user" if first else "")
        + f"\n<tool_response>\n{message['content']}\n</tool_response>"
        + ("<|im_end|>\n" if last else "")
    )


def _content(message: Mapping[str, Any]) -> str:
    parts = [message["content"]] if message["content"] else []
    for call in message.get("tool_calls", []):
        body = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        parts.append(f"<tool_call>\n{json.dumps(body)}\n</tool_call>")
    return "\n".join(parts)


def forgetful_template(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    generation_prompt: bool,
) -> str:
    """Drops the reasoning of turns before the last user message, as some templates do."""
    users = [i for i, m in enumerate(messages) if m["role"] == "user"]
    last = users[-1] if users else -1
    kept = []
    for index, message in enumerate(messages):
        content = message["content"]
        if message["role"] == "assistant" and index < last and "</think>" in content:
            content = content.split("</think>")[-1].lstrip("\n")
        kept.append({**message, "content": content})
    return hermes_template(kept, tools, generation_prompt)


class ReadableTokenizer:
    """Greedy longest match over a few words; anything else is one id a character."""

    name_or_path = "readable"
    eos_token_id: int | None

    def __init__(
        self, words: Sequence[str] = (), template: Template | None = hermes_template
    ) -> None:
        self.chat_template = template
        self._words = [*SPECIAL, *words]
        self.all_special_ids = list(range(len(SPECIAL)))
        self.eos_token_id = SPECIAL.index("<|im_end|>")

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        tokenize: bool = False,
    ) -> str:
        assert self.chat_template is not None
        assert not tokenize
        return self.chat_template(conversation, tools, add_generation_prompt)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        ids, at = [], 0
        by_length = sorted(range(len(self._words)), key=lambda i: -len(self._words[i]))
        while at < len(text):
            found = next((i for i in by_length if text.startswith(self._words[i], at)), None)
            ids.append(1000 + ord(text[at]) if found is None else found)
            at += 1 if found is None else len(self._words[found])
        return ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return "".join(self._words[i] if i < 1000 else chr(i - 1000) for i in token_ids)
