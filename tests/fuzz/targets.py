"""What is fuzzed: each target takes any bytes, and raises only where a promise is broken.

In    bytes, of any origin
Out   nothing; AssertionError, or whatever escaped, where the code under test is wrong
Not   a clock: hangs are the fuzzer's to end
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, get_args

from agentrl.errors import ToolError
from agentrl.exact import parse_number
from agentrl.exact.budget import MAX_CHARACTERS
from agentrl.formats import table
from agentrl.formats.hermes import MAX_PROBLEM, parse
from agentrl.graders import Format, Policy, final_answer, math_equal
from agentrl.sandbox.protocol import MAX_FRAME, MAX_HEADER, ProtocolError, decode, encode
from agentrl_tools.calculator import evaluate
from benchmarks.expressions import EXECUTION, SEMANTICS, TOO_LARGE
from tests.test_format_fuzz import MARKS, PIECES, WHOLE, check

LONGEST_ANSWER: Final = 500
FORMATS: Final = get_args(Format)
EXACTLY: Final = Policy(algebra=False)
"""The tier that runs in this process."""


@dataclass(frozen=True, slots=True)
class Target:
    """One function under fuzzing."""

    run: Callable[[bytes], None]
    """Takes one input; an exception is a finding."""
    seeds: tuple[bytes, ...]
    """Inputs to begin with."""
    words: tuple[bytes, ...]
    """What a mutation may put in."""
    longest: int
    """Bytes of an input: beyond it the code under test would only say that it is too long."""


def text_of(data: bytes) -> str:
    """Bytes as a policy's text might come, halves of surrogate pairs included."""
    return data.decode("utf-8", "surrogateescape")


def calculator(data: bytes) -> None:
    """An answer or a ToolError, both short and printable."""
    try:
        said = evaluate(text_of(data))
    except ToolError as error:
        said = str(error)
    assert len(said) <= LONGEST_ANSWER
    assert said.isprintable()
    assert said.encode()


def grading(data: bytes) -> None:
    """An answer is a part of the text; exact comparison has words, and is one of three."""
    text = text_of(data)
    for form in FORMATS:
        answer = final_answer(text, form)
        assert answer is None or (answer in text and answer.strip())
    cut = final_answer(text) or text
    gold, _, rest = cut.partition(";")
    for a, b in ((gold, rest), (rest, gold), (gold, gold)):
        verdict = math_equal(a, b, policy=EXACTLY)
        assert verdict.correct in (True, False, None)
        assert verdict.reason
        assert verdict.tier == 1
    if parse_number(gold) is not None:
        assert math_equal(gold, gold, policy=EXACTLY).correct is True


def protocol(data: bytes) -> None:
    """A frame that comes back as it went, or a ProtocolError."""
    try:
        frame = decode(data)
    except ProtocolError:
        return
    assert data.endswith(frame.body)
    assert isinstance(frame.header, dict)
    assert frame.fds == ()
    try:
        again = encode(frame.header, frame.body)
    except ProtocolError:
        # Escapes may be longer than what they stand for.
        assert len(data) > MAX_HEADER // 6
        return
    assert len(again) <= MAX_FRAME
    assert json.dumps(dict(decode(again).header)) == json.dumps(dict(frame.header))


def hermes(data: bytes) -> None:
    """Calls that the text holds, or problems in bounded words."""
    calls("hermes", data)
    text = text_of(data)
    for reason in ("stop", "length"):
        turn = parse(text, reason)
        assert len(turn.calls) <= text.count("<tool_call>")
        assert len(turn.text) + len(turn.reasoning) <= len(text)
        for call in turn.calls:
            assert isinstance(call.name, str)
            assert isinstance(call.arguments, dict)
            if call.problem is None:
                assert call.name
                # What a call holds is text and numbers that any other program can read.
                assert json.dumps(dict(call.arguments), allow_nan=False).encode()
            else:
                assert call.arguments == {}
                assert 0 < len(call.problem) <= MAX_PROBLEM
                assert call.problem.encode()


def calls(name: str, data: bytes) -> None:
    """A format's promises for any text; and no exception where a text has half characters."""
    check(name, data.decode("utf-8", "replace"))
    for call in table.FORMATS[name].parse(text_of(data), "stop", ()).calls:
        assert json.dumps([call.name, dict(call.arguments), call.problem]).encode()


def _of_format(name: str) -> Target:
    whole, marks = WHOLE[name], MARKS[name]
    seeds = (whole, f"I look.\n{whole}", f"{whole}\n{whole}", whole.replace("x", "\n</x>{[é"))
    return Target(partial(calls, name), _texts(*seeds), _texts(*marks, *PIECES), 2048)


def _call(name: str, **arguments: object) -> bytes:
    body = json.dumps({"name": name, "arguments": arguments})
    return f"I look.\n<tool_call>\n{body}\n</tool_call>".encode()


def _texts(*texts: str) -> tuple[bytes, ...]:
    return tuple(text.encode("utf-8", "surrogatepass") for text in texts)


TARGETS: Final = {
    "calculator": Target(
        calculator,
        _texts(
            *(text for text, _ in SEMANTICS),
            *(text for text in (*TOO_LARGE, *EXECUTION) if len(text) <= MAX_CHARACTERS),
        ),
        _texts(*"0123456789.,()+-*/^%!√²³π·÷", "**", "sqrt(", "log(", "comb(", "gcd(", "1e4000",
               "2^9999", "tanh(", "round(", "pi", "1700!", "(1/63)"),
        MAX_CHARACTERS,
    ),
    "grading": Target(
        grading,
        _texts(
            r"so \boxed{3} and then \boxed{\frac{1}{2};0.5}",
            "Answer: 1,234;1234",
            "**Answer:** $42$.;42",
            "#### 7;7.0",
            r"\boxed{\boxed{1};1e0}",
            r"\fbox{(1, 2);[1, 2)}",
            "x = 5;5",
            "50%;0.5",
            "1 1/2;3/2",
            "It is 12 km; 12",
            "<answer>3</answer> #### 3",
            r"\boxed{\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix};[1, 2]}",
            r"\boxed{(-\infty, 2] \cup \{3\};x \le 2}",
            r"\boxed{\dfrac{\sqrt{3}}{2}\pi;0.5\sqrt 3 \pi}",
            r"\boxed{1.5 \times 10^{3}\ \text{cm}^2;1500 cm^2}",
            r"\boxed{2\frac{3}{4};0.\overline{3}}",
            r"\boxed{10\,000;10 000}",
            r"\boxed{\left( 1, 2 \right);1,2}",
            r"\boxed{x = 5 \text{ or } x = 6;5, 6}",
            r"\boxed{\pm 3;3, -3}",
            r"\boxed{90^\circ;\frac{\pi}{2}}",
        ),
        _texts("\\boxed{", "}", "Answer:", ";", "1/2", "1,000", "e9", "$", "\\frac{", "\\text{",
               "%", "<answer>", "####", "\\left", "\\pi", "^{", "\\sqrt", "\\cup", "\\pm",
               "(", ",", "]", "=", "\\infty", "\\overline{", "\N{MINUS SIGN}", "٣"),
        1024,
    ),
    "protocol": Target(
        protocol,
        (
            b'{"do":"run","cpu":5.0}\nprint(1)',
            b'{"pid":12}\n',
            b'{"exit":0,"signal":null,"cpu":0.1}\n\n\n',
            b"{}\n" + b"x" * 300,
            b'{"a":[1,{"b":"\\ud800"}]}\n\x00\xff',
            b"[" * 2000 + b"\n",
        ),
        (b"\n", b'{"', b'":', b"}", b"NaN", b"1e999", b"\\u0000", b"[[[[[[[[", b"\xff\xfe"),
        MAX_HEADER,
    ),
    "hermes": Target(
        hermes,
        (
            _call("calculator", expression="2+2"),
            _call("f") + _call("g", a=[1, None, {"b": "</tool_call>"}]),
            b"<think>hm <tool_call>{}</tool_call></think>done",
            b'<tool_call>{"name": "f", "arguments": {"a": 1}',
            b'<tool_call>```json\n{"name": "f", "arguments": {}}\n```</tool_call>',
            b'<tool_call>{"name": "f", "parameters": {}}</tool_call>',
            b'<tool_call>{"name": "f", "arguments": {"a": NaN, "a": 1e999}}</tool_call>',
            b"<tool_call>" * 20 + b"{" * 500,
        ),
        _texts("<tool_call>", "</tool_call>", "<think>", "</think>", '{"name": "', '"arguments": ',
               "{", "}", "[[[[[[[[", "\\ud800", "1e999", "NaN", "\n", "```"),
        2048,
    ),
    **{name: _of_format(name) for name in WHOLE if name != "hermes"},
}  # fmt: skip
