import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.formats.hermes import MAX_PROBLEM, parse


def call(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


def only(text: str, finish_reason="stop"):
    (found,) = parse(text, finish_reason).calls
    return found


def test_words_calls_and_reasoning_are_told_apart():
    turn = parse(
        '<think>hm</think>I look.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n'
        '</tool_call>\n<tool_call>{"name": "g", "arguments": {}}</tool_call> Done.'
    )
    assert turn.text == "I look.\n\n Done."
    assert turn.reasoning == "hm"
    assert [(c.name, c.arguments, c.problem) for c in turn.calls] == [
        ("f", {"a": 1}, None),
        ("g", {}, None),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '<think><tool_call>{"name":"A","arguments":{}}</tool_call></think>done',
        'maybe <tool_call>{"name":"A","arguments":{}}</tool_call> no</think>done',
        "maybe <tool_call> no</think>done",
    ],
)
def test_calls_inside_reasoning_are_reasoning(text):
    turn = parse(text)
    assert turn.calls == ()
    assert turn.text == "done"
    assert "tool_call" in turn.reasoning


def test_reasoning_that_is_never_closed_hides_what_follows():
    turn = parse('<think>so <tool_call>{"name":"A","arguments":{}}</tool_call>')
    assert (turn.text, turn.calls) == ("", ())
    assert turn.reasoning.startswith("so <tool_call>")


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ('{"name": "f", "arguments": {"e": "1",}}', "not valid JSON"),
        ("{'name': 'f'}", "not valid JSON"),
        ("", "not valid JSON"),
        ("hello", "not valid JSON"),
        ('{"name": "f", "arguments": {"e": NaN}}', "NaN is not JSON"),
        ('{"name": "f", "arguments": {"e": -Infinity}}', "Infinity is not JSON"),
        ('{"name": "f", "arguments": {"e": 1e999}}', "out of range"),
        ('{"name": "f", "arguments": {"e": ' + "9" * 5000 + "}}", "not valid JSON"),
        ('{"name": "f", "arguments": {"e": 1, "e": 2}}', "twice"),
        ('{"name": "f", "arguments": {"e": "\\ud800"}}', "surrogate"),
        ('{"name": "f", "arguments": ' + '{"a":' * 20000, "nested too deeply"),
        ('{"name": "f", "arguments": {}} and more', "something follows"),
        ('[{"name": "f", "arguments": {}}]', "not an array"),
        ("null", "not null"),
        ("3", "not a number"),
        ('"f"', "not a string"),
        ("true", "not a boolean"),
        ('{"arguments": {}}', "`name` is missing"),
        ('{"name": 3, "arguments": {}}', "`name` is missing"),
        ('{"name": "", "arguments": {}}', "`name` is missing"),
        ('{"name": "f"}', "`arguments` is missing"),
        ('{"name": "f", "parameters": {}}', "use `arguments` instead of `parameters`"),
        ('{"name": "f", "arguments": null}', "not null"),
        ('{"name": "f", "arguments": [1]}', "not an array"),
        ('{"name": "f", "arguments": "x"}', "not a string"),
        ('{"name": "f", "arguments": "{\\"e\\": 1}"}', "not a string"),
        ('{"name": "f", "arguments": 3}', "not a number"),
        ('{"name": "f", "arguments": {}, "e": 1}', "not `e`"),
    ],
)
def test_what_is_not_a_call_is_refused_with_the_reason_and_no_arguments(body, word):
    found = only(call(body))
    assert word in (found.problem or "")
    assert found.arguments == {}


def test_a_refused_call_keeps_its_name_where_it_has_one():
    assert only(call('{"name": "f", "arguments": 3}')).name == "f"
    assert only(call("junk")).name == ""


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f", "arguments": {"e": "a\nb"}}',
        '```json\n{"name": "f", "arguments": {"e": "a\\nb"}}\n```',
        '\n```\n{"name": "f", "arguments": {"e": "a\\nb"}}```\n',
    ],
)
def test_raw_newlines_and_a_code_fence_leave_no_doubt(body):
    found = only(call(body))
    assert (found.problem, found.arguments) == (None, {"e": "a\nb"})


@pytest.mark.parametrize("inner", ["</tool_call>", "<tool_call>", "<think>", "</think>", "}{"])
def test_marks_inside_a_json_string_are_text(inner):
    turn = parse("x" + call(json.dumps({"name": "f", "arguments": {"e": inner}})) + "y")
    assert turn.text == "xy"
    assert [c.arguments for c in turn.calls] == [{"e": inner}]


def test_one_bad_call_takes_no_good_one_with_it():
    good = '{"name": "f", "arguments": {}}'
    turn = parse(f"{call('{bad')} a {call(good)} b <tool_call>{good} {call(good)}")
    assert [c.problem is None for c in turn.calls] == [False, True, False, True]
    assert turn.text.split() == ["a", "b"]


def test_a_tag_that_is_not_closed_is_named_by_how_the_turn_ended():
    whole, cut = '<tool_call>{"name": "f", "arguments": {}}', '<tool_call>{"name": "f", "argu'
    assert "not closed" in only(whole).problem
    assert "not valid JSON" in only(cut).problem
    assert "length limit" in only(whole, "length").problem
    assert "length limit" in only(cut, "length").problem


def test_calls_of_a_cut_turn_are_still_listed():
    turn = parse(call('{"name": "f", "arguments": {}}') + '<tool_call>{"na', "length")
    assert [c.problem is None for c in turn.calls] == [True, False]
    assert turn.finish_reason == "length"


@pytest.mark.parametrize("junk", ["x" * 200_000, '{"a": "' + "y" * 200_000, "<tool_call>" * 5000])
def test_the_echo_of_junk_is_bounded(junk):
    assert all(len(c.problem) <= MAX_PROBLEM for c in parse(call(junk)).calls)


@given(
    st.lists(
        st.sampled_from(
            [
                "<tool_call>",
                "</tool_call>",
                "<think>",
                "</think>",
                '{"name": "f", "arguments": {}}',
                '{"name":',
                "}",
                "[",
                '"',
                "```json\n",
                "x",
                " ",
                "\n",
                "null",
                "\\",
            ]
        ),
        max_size=12,
    ).map("".join)
)
def test_any_text_is_parsed_into_calls_that_are_sound_or_empty(text):
    turn = parse(text)
    assert all(c.problem is None or (not c.arguments and c.problem) for c in turn.calls)
    assert "<think>" not in turn.text


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.booleans(), st.none())))
def test_a_well_formed_call_comes_back_as_it_was_written(arguments):
    found = only(call(json.dumps({"name": "f", "arguments": arguments}, ensure_ascii=False)))
    assert found.problem is None
    assert found.arguments == arguments
