"""Parsers under any text: no exception, nothing that the text does not hold, linear time."""

import json
import random
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from json.decoder import scanstring
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrl.formats.format import Parse, Tools
from agentrl.formats.strict import decode
from agentrl.formats.table import FORMATS
from agentrl.message import AssistantTurn, FinishReason, ToolCall
from tests.families import deepseek_mark
from tests.oracle import holds

MARKS = {
    "hermes": ["<tool_call>", "</tool_call>"],
    "qwen3_coder": [
        *("<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=a>"),
        *("</parameter>", "<parameter=b>", "<function=", "<parameter="),
        *("<parameter=b>7</parameter>", "<parameter=x>True</parameter>"),
    ],
    "llama3_json": ["<|python_tag|>", '{"name": "f", "parameters": {}}', "; "],
    "mistral": ["[TOOL_CALLS]", "[THINK]", "[/THINK]", "[/INST]", "[/TOOL_RESULTS]"],
    "mistral_args": ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "f[ARGS]{}", "[THINK]", "[/THINK]"],
    "deepseek_v3": [
        *(deepseek_mark(f"tool {w}") for w in ("call begin", "sep", "call end", "calls begin")),
        *("function", "\n```json\n", "\n```"),
    ],
    "deepseek_v31": [
        *(deepseek_mark(f"tool {w}") for w in ("call begin", "sep", "call end", "calls end")),
    ],
    "harmony": [
        *("<|channel|>", "commentary", "analysis", "final", " to=functions.f", " to=", "<|end|>"),
        *("<|message|>", "<|start|>", "assistant", "<|call|>", "<|return|>", "<|constrain|>json"),
        "<|channel|>commentary to=functions.f<|message|>",
    ],
}
PIECES = [
    *('{"name": "f", "arguments": {}}', '{"name": "f", "parameters": {"a": [1]}}', '{"name":'),
    *('{"a": "b\nc", "d": null}', "{", "}", "[", "]", '"', "\\", "\\u00e9", "\\ud800", ",", ":"),
    *("null", "true", "NaN", "1", "-", "1e999", "9" * 30, "```", "```json\n", "`", "\n", " "),
    *("<think>", "</think>", "x", "f", "é", "日", "\x00", "\ufffd", "𝄞", "name", "arguments"),
]
WHOLE = {
    "hermes": '<tool_call>{"name": "f", "arguments": {"a": "x"}}</tool_call>',
    "qwen3_coder": "<tool_call><function=f><parameter=a>\nx\n</parameter></function></tool_call>",
    "llama3_json": '<|python_tag|>{"name": "f", "parameters": {"a": "x"}}',
    "mistral": '[TOOL_CALLS][{"name": "f", "arguments": {"a": "x"}}]',
    "mistral_args": '[TOOL_CALLS]f[ARGS]{"a": "x"}',
    "deepseek_v3": "{}function{}f\n```json\n{{}}\n```{}".format(*MARKS["deepseek_v3"][:3]),
    "deepseek_v31": '{}f{}{{"a": "x"}}{}'.format(*MARKS["deepseek_v31"][:3]),
    "harmony": '<|channel|>commentary to=functions.f<|message|>{"a": "x"}<|call|>',
}
BEGINS = {  # Without these no text holds a call.
    "hermes": ["<tool_call>"],
    "qwen3_coder": ["<tool_call>"],
    "llama3_json": ["<|python_tag|>", "{"],
    "mistral": ["[TOOL_CALLS]"],
    "mistral_args": ["[TOOL_CALLS]"],
    "deepseek_v3": MARKS["deepseek_v3"][:1],
    "deepseek_v31": MARKS["deepseek_v31"][:1],
    "harmony": [" to=", "to="],
}


KINDS = {"a": {}, "b": {"type": ["integer", "object", "null"]}, "x": {"type": "boolean"}}
TOOLS = [{"function": {"name": "f", "parameters": {"type": "object", "properties": KINDS}}}]
TYPED = {"qwen3_coder"}
"""Formats whose arguments have the types that the tools' schemas name."""


def check(name: str, text: str, parse: Parse | None = None) -> int:
    """Parse a text and check the promises; how many sound calls it had."""
    parse = parse or FORMATS[name].parse
    finish: FinishReason = "length" if len(text) % 3 == 0 else "stop"
    sound = 0
    for tools in ([], TOOLS) if name in TYPED else ([],):
        turn = parse(text, finish, tools)
        assert turn.finish_reason == finish
        sound = check_calls(name, text, turn.calls)
    for begin in BEGINS[name]:
        text = text.replace(begin, "")
    if not any(begin in text for begin in BEGINS[name]):
        assert parse(text, finish, ()).calls == ()
    return sound


def check_calls(name: str, text: str, calls: Sequence[ToolCall]) -> int:
    sound = [call for call in calls if call.problem is None]
    assert all(call.name for call in sound)
    assert all(isinstance(call.arguments, dict) for call in sound)
    assert holds(name, text, sound), sound
    json.dumps([dict(call.arguments) for call in sound], allow_nan=False).encode()
    for call in calls:
        if call.problem is not None:
            assert named(call.name, text)
            assert call.arguments == {}
            assert 0 < len(call.problem) < 500
            call.problem.encode()
    return len(sound)


def named(name: str, text: str) -> bool:
    """Whether a text holds the name of a refused call, as it is or as a JSON literal."""
    return name in text or any(
        literal(text, quote.end()) == name for quote in re.finditer('"', text)
    )


def literal(text: str, start: int) -> str | None:
    """The string whose opening quote ends at `start`, where there is one."""
    try:
        return scanstring(text, start, False)[0]
    except ValueError:
        return None


def test_every_format_is_fuzzed():
    assert set(MARKS) == set(WHOLE) == set(BEGINS) == set(FORMATS)
    assert all(check(name, text) == 1 for name, text in WHOLE.items())


def typed(value: Any) -> Any:
    return 7 if isinstance(value, str) else value


LIES = {
    "all values are 7": lambda calls: [replace(c, arguments={"a": 7}) for c in calls],
    "text becomes a number": lambda calls: [
        replace(c, arguments={k: typed(v) for k, v in c.arguments.items()}) for c in calls
    ],
    "the last arguments for all": lambda calls: [
        replace(c, arguments=calls[-1].arguments) for c in calls
    ],
    "each call twice": lambda calls: [c for c in calls for _ in range(2)],
    "the first call once more": lambda calls: [*calls, calls[0]],
    "backwards": lambda calls: calls[::-1],
    "an argument less": lambda calls: [replace(calls[0], arguments={}), *calls[1:]],
    "an argument more": lambda calls: [
        replace(calls[0], arguments={**calls[0].arguments, "f": "x"}),
        *calls[1:],
    ],
    "another name": lambda calls: [replace(calls[0], name="x"), *calls[1:]],
    "no call at all is written": lambda calls: [*calls, ToolCall("f", {})],
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("lie", LIES)
def test_a_parser_that_invents_is_caught(name, lie):
    first = WHOLE[name].replace("{}", '{"a": "x"}')
    text = f"{first}\n{first.replace('x', 'y')}"
    if name == "harmony":
        text = text.replace("\n", "<|start|>assistant")

    def parse(text: str, finish: FinishReason, tools: Tools) -> AssistantTurn:
        turn = FORMATS[name].parse(text, finish, tools)
        calls = LIES[lie](list(turn.calls)) if turn.calls else ()
        return replace(turn, calls=tuple(calls))

    assert check(name, text) == 2
    with pytest.raises(AssertionError):
        check(name, text, parse)


def test_types_that_no_text_has_are_caught():
    text = WHOLE["qwen3_coder"].replace("x", "1")
    assert not holds("qwen3_coder", text, [ToolCall("f", {"a": True})])
    assert not holds("qwen3_coder", text, [ToolCall("f", {"a": 1.0})])
    assert holds("qwen3_coder", text, [ToolCall("f", {"a": 1})])
    assert not holds("hermes", WHOLE["hermes"].replace('"x"', "1"), [ToolCall("f", {"a": True})])


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_any_text_is_parsed_into_calls_that_it_holds(name, data):
    pieces = st.sampled_from([*MARKS[name] * 3, WHOLE[name], *PIECES])
    check(name, "".join(data.draw(st.lists(pieces, max_size=16))))


@pytest.mark.parametrize("name", FORMATS)
@given(text=st.text())
def test_text_without_marks_is_text(name, text):
    check(name, text)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(), inner, max_size=9),
    ),
    padding=st.integers(0, 5000),
)
@example(value={"a": "x" * 2047}, padding=0)
@example(value=12345678, padding=2044)
def test_a_value_is_decoded_the_same_wherever_the_reading_pauses(value, padding):
    text = json.dumps([" " * padding, value], ensure_ascii=False)
    finite = "Infinity" not in text and "\\ud" not in text
    for after in ("", " x", "]", '"'):
        found = decode(text + after, 0)
        if finite:
            assert (found.value, found.end) == ([" " * padding, value], len(text))
    for cut in (len(text) // 2, len(text) - 1):
        assert decode(text[:cut], 0).why


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_ten_million_bytes_bring_no_exception_and_no_call_that_is_not_there(name):
    rng = random.Random(name)
    parsed = sound = 0
    while parsed < 10_000_000:
        if rng.random() < 0.5:
            pieces = [*MARKS[name] * 4, WHOLE[name], WHOLE[name], *PIECES]
            text = "".join(rng.choices(pieces, k=rng.randrange(1, 400)))
        else:
            text = mutated("\n".join([WHOLE[name]] * rng.randrange(1, 40)), rng)
        parsed += len(text.encode())
        sound += check(name, text)
    assert sound > 1000, "the fuzzing must reach calls that are sound"


def mutated(text: str, rng: random.Random) -> str:
    """Bytes changed, dropped and doubled, as far as they are still text."""
    raw = bytearray(text.encode())
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(raw))
        change = rng.randrange(3)
        if change == 0:
            raw[at] = rng.randrange(256)
        elif change == 1:
            del raw[at : at + rng.randrange(1, 4)]
        else:
            raw[at:at] = raw[at : at + rng.randrange(1, 30)]
        raw = raw or bytearray(b"x")
    return raw.decode("utf-8", "replace")


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_time_is_linear_in_hostile_text(name):
    units = [*MARKS[name], *(mark + tail for mark in MARKS[name] for tail in ("{", '"', "[", "`"))]
    units += ["<think>", "</think>", "a</think>", "[", "{", " ", "\n", '{"a":', "```x\n", "```\n"]
    for unit in units:
        for head in ("", MARKS[name][0]):
            spent = [cpu(name, head + unit * count) for count in (25_000, 100_000)]
            again = [cpu(name, head + unit * 100_000)] if spent[1] > 8 * spent[0] else []
            assert min(*again, *spent[1:], float("inf")) < 9 * spent[0] + 0.1, (head, unit, spent)


def cpu(name: str, text: str) -> float:
    """Seconds of processor time that parsing takes."""
    begun = time.process_time()
    FORMATS[name].parse(text, "stop", ())
    return time.process_time() - begun


def test_deep_nesting_is_a_problem_and_no_exception():
    for name, whole in WHOLE.items():
        for depth in (90, 120, 5_000, 100_000):
            text = whole.replace('"x"', "[" * depth + "]" * depth).replace("{}", "[" * depth)
            turn = FORMATS[name].parse(text, "stop", ())
            if name != "qwen3_coder":  # There it is text.
                assert [c.problem is None for c in turn.calls] == [
                    depth < 100 and "{}" not in whole
                ]


@pytest.mark.parametrize("name", FORMATS)
def test_no_part_of_a_call_is_a_call(name):
    whole = WHOLE[name]
    body = len(whole) if name == "qwen3_coder" else whole.rindex("}") + 1
    for end in range(body):
        assert all(c.problem for c in FORMATS[name].parse(whole[:end], "stop", ()).calls)
