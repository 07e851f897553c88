"""Every row of the parser's truth table, in every format where it applies."""

import json

import pytest

from agentrl.formats.call import MAX_PROBLEM
from agentrl.formats.table import FORMATS
from tests.families import deepseek_mark

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": "",
            "parameters": {
                "$defs": {
                    "Spot": {"type": "object"},
                    "Size": {"type": "string", "enum": ["1", "2"]},
                },
                "properties": {
                    "text": {"type": "string"},
                    "count": {"type": "integer"},
                    "ratio": {"type": "number"},
                    "flag": {"type": "boolean"},
                    "list": {"type": "array"},
                    "spot": {"$ref": "#/$defs/Spot"},
                    "size": {"$ref": "#/$defs/Size"},
                    "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                    "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "types": {"type": ["integer", "null"]},
                    "choice": {"enum": [1, "a"]},
                    "one": {"const": True},
                    "any": {},
                },
            },
        },
    }
]
CALL, SEP, CALL_END = (deepseek_mark(w) for w in ("tool call begin", "tool sep", "tool call end"))
HARMONY = "<|channel|>commentary to=functions."

# How each format writes a call whose arguments are the given text.
WRITE = {
    "hermes": lambda name, a: f'<tool_call>{{"name": "{name}", "arguments": {a}}}</tool_call>',
    "llama3_json": lambda name, a: f'<|python_tag|>{{"name": "{name}", "parameters": {a}}}',
    "mistral": lambda name, a: f'[TOOL_CALLS][{{"name": "{name}", "arguments": {a}}}]',
    "mistral_args": lambda name, a: f"[TOOL_CALLS]{name}[ARGS]{a}",
    "deepseek_v3": lambda name, a: f"{CALL}function{SEP}{name}\n```json\n{a}\n```{CALL_END}",
    "deepseek_v31": lambda name, a: f"{CALL}{name}{SEP}{a}{CALL_END}",
    "harmony": lambda name, a: f"{HARMONY}{name} <|constrain|>json<|message|>{a}<|call|>",
}
OPEN = {
    "hermes": "<tool_call>",
    "llama3_json": "<|python_tag|>",
    "mistral": "[TOOL_CALLS]",
    "mistral_args": "[TOOL_CALLS]",
    "deepseek_v3": CALL,
    "deepseek_v31": CALL,
    "harmony": HARMONY,
    "qwen3_coder": "<tool_call>",
}
CLOSE = {**OPEN, "hermes": "</tool_call>", "deepseek_v3": CALL_END, "deepseek_v31": CALL_END}
CLOSE |= {"harmony": "<|call|>", "qwen3_coder": "</tool_call>"}


def parse(name, text, finish_reason="stop"):
    return FORMATS[name].parse(text, finish_reason, TOOLS)


def only(name, text, finish_reason="stop"):
    (found,) = parse(name, text, finish_reason).calls
    return found


def write_coder(tool, **given):
    parameters = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in given.items())
    return f"<tool_call>\n<function={tool}>\n{parameters}</function>\n</tool_call>"


@pytest.fixture(params=WRITE)
def name(request):
    return request.param


def test_every_format_has_rows_here():
    assert {*WRITE, "qwen3_coder"} == set(FORMATS)


def test_a_sound_call_gives_exactly_what_it_says(name):
    arguments = {"e": 'a "b" \\ é 日', "n": None, "t": True, "x": [1, {"y": -0.5}]}
    found = only(name, WRITE[name]("f", json.dumps(arguments, ensure_ascii=False)))
    assert (found.name, found.arguments, found.problem) == ("f", arguments, None)
    assert found.arguments["t"] is True


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"e": "1",}', "not valid JSON"),
        ("{'e': 1}", "not valid JSON"),
        ('{"e": NaN}', "NaN is not JSON"),
        ('{"e": -Infinity}', "Infinity is not JSON"),
        ('{"e": 1e999}', "out of range"),
        ('{"e": 1, "e": 2}', "twice"),
        ('{"e": ["\\ud800"]}', "surrogate"),
        ('{"e": ' + "[" * 200 + "]" * 200 + "}", "nested too deeply"),
        ("", "not valid JSON"),
        ("null", "not null"),
        ("[1]", "not an array"),
        ('"x"', "not a string"),
        ("3", "not a number"),
        ('[{"name": "f", "arguments": {}}]', "not an array"),
        ('{"e": 1} and more', ""),
    ],
)
def test_a_malformed_call_is_refused_with_its_reason_and_no_arguments(name, arguments, why):
    found = only(name, WRITE[name]("f", arguments))
    assert why in (found.problem or "")
    assert found.problem
    assert found.arguments == {}


def test_a_problem_is_bounded_and_shows_a_right_call(name):
    found = only(name, WRITE[name]("f" * 200, '{"e": ' + "y" * 200_000))
    assert len(found.problem) < 2 * MAX_PROBLEM
    assert len(found.name) <= 80
    if name != "hermes":
        example = found.problem.partition("A right call: ")[2].removesuffix(" and nothing else")
        right = only(name, example)
        assert (right.name, right.arguments, right.problem) == ("NAME", {"KEY": "VALUE"}, None)


def test_raw_newlines_inside_a_string_are_the_string(name):
    assert only(name, WRITE[name]("f", '{"e": "a\nb\n"}')).arguments == {"e": "a\nb\n"}


def test_marks_inside_a_string_are_text(name):
    for mark in (CLOSE[name], OPEN[name], "<think>", "</think>", "<|end|>", "}{"):
        found = parse(name, WRITE[name]("f", json.dumps({"e": mark + "x"}, ensure_ascii=False)))
        assert [c.arguments for c in found.calls] == [{"e": mark + "x"}]
        assert found.text == ""


FENCED = '\n```json\n{"name": "f", "KEY": {"e": 1}}\n```\n'
BARE = '\n```\n{"e": 1}\n```\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "<tool_call>" + FENCED.replace("KEY", "arguments") + "</tool_call>"),
        ("llama3_json", "<|python_tag|>" + FENCED.replace("KEY", "parameters")),
        ("mistral", '[TOOL_CALLS]\n```json\n[{"name": "f", "arguments": {"e": 1}}]\n```'),
        ("mistral_args", f"[TOOL_CALLS]f[ARGS]{BARE}"),
        ("deepseek_v31", f"{CALL}f{SEP}{BARE}{CALL_END}"),
        ("harmony", f"{HARMONY}f<|message|>{BARE}<|call|>"),
    ],
)
def test_a_code_fence_around_the_json_leaves_no_doubt(name, text):
    found = only(name, text)
    assert (found.problem, found.arguments) == (None, {"e": 1})


def test_a_call_inside_reasoning_is_reasoning(name):
    call = WRITE[name]("A", "{}")
    if name == "harmony":
        text = "<|channel|>analysis to=functions.A<|message|>{}<|end|><|start|>assistant"
        text += "<|channel|>final<|message|>done"
    elif name in ("mistral", "mistral_args"):
        text = f"[THINK]{call}[/THINK]done"
    else:
        text = f"<think>{call}</think>done"
    turn = parse(name, text)
    assert (turn.calls, turn.text) == ((), "done")
    assert turn.reasoning
    if name != "harmony":
        begun_in_the_prompt = parse(name, text.partition(FORMATS[name].think)[2])
        assert (begun_in_the_prompt.calls, begun_in_the_prompt.text) == ((), "done")
        never_closed = parse(name, FORMATS[name].think + call)
        assert (never_closed.calls, never_closed.text) == ((), "")


def test_unknown_names_are_kept_for_the_answer(name):
    assert only(name, WRITE[name]("calculater", "{}")).name == "calculater"


def test_a_cut_call_is_told_from_a_broken_one_by_how_the_turn_ended(name):
    cut = WRITE[name]("f", '{"e": "ab')
    cut = cut[: cut.index('"ab') + 3]
    assert "length limit" in only(name, cut, "length").problem
    assert "length limit" not in only(name, cut, "stop").problem
    assert parse(name, cut, "length").finish_reason == "length"


def test_one_bad_call_takes_no_good_one_with_it(name):
    good, bad = WRITE[name]("f", "{}"), WRITE[name]("f", '{"e": 1,}')
    between = "<|start|>assistant" if name == "harmony" else ""
    for text in (good + between + bad, bad + between + good):
        assert sorted(c.problem is None for c in parse(name, text).calls) == [False, True]


@pytest.mark.parametrize("name", ["hermes", "deepseek_v3", "deepseek_v31"])
def test_what_stands_in_closed_markdown_code_is_quoted_not_called(name):
    call = WRITE[name]("f", "{}")
    for text in (f"Write `{call}` to look.", f"So:\n```\n{call}\n{call}\n```\nThat is all."):
        turn = parse(name, text)
        assert (turn.calls, turn.text) == ((), text)
    assert len(parse(name, f"```python\nx = 1\n```\n{call}").calls) == 1
    assert len(parse(name, f"```python\nx = 1\n{call}").calls) == 1, "the code is never closed"
    assert len(parse(name, WRITE[name]("f", '{"e": "\n```\n"}') + call).calls) == 2


QUOTED = {
    "span": "Write `{call}` to look.",
    "span with words": "Write `e.g. {call} or so` to look.",
    "span of two": "Write `{call}{call}` to look.",
    "fence": "So:\n```\n{call}\n```",
    "fence, words behind": "So:\n```xml\n{call}\n\n{call}\n```\nThat is all.",
    "line ends of two characters": "So:\r\n```\r\n{call}\r\n```\r\n",
    "tildes": "~~~\n{call}\n~~~",
    "tildes around a fence": "~~~\n```\n~~~ x\n{call}\n~~~",
    "four": "````\n{call}\n````",
    "a fence in one": "````\n```\n{call}\n```\n````",
    "a quoted fence": "> ```\n> {call}\n> ```",
    "a listed fence": "1. ```\n   {call}\n   ```",
    "a fence after a call": "{call}\n```\n{call}\n```",
    "a thought in the code": "```\n<think>x</think>\n{call}\n```",
}
NOT_QUOTED = {
    "quotation marks": 'For example: "{call}"',
    "a comment": "<!-- {call} -->",
    "a quoted line": "> {call}",
    "spans on its line": "`a` {call} `b`",
    "a span that ends elsewhere": "A lone ` here {call}\nand ` there",
    "code that never ends": "```python\n{call}",
    "code whose end is too short": "````\n{call}\n```",
    "code that ended": "```python\nx = 1\n```\n{call}\n```\ny\n```",
    "another fence's end": "~~~\n{call}\n```",
    "a fence in a thought": "<think>\n```\n</think>{call}\n```",
    "a fence in a thought of a prompt": "\n```\n</think>{call}\n```",
}


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "deepseek_v3", "deepseek_v31"])
def test_markdown_code_quotes_and_nothing_else_does(name):
    write = WRITE.get(name, lambda tool, _: write_coder(tool))
    call = write("f", "{}")
    for case, form in QUOTED.items():
        if case == "span of two" and "\n" in call:
            continue  # A span does not go on behind its line.
        turn = parse(name, form.format(call=call))
        expected = 1 if case == "a fence after a call" else 0
        assert [c.problem for c in turn.calls] == [None] * expected, case
        assert turn.text.count(call) == form.count("{call}") - expected, case
    for case, form in NOT_QUOTED.items():
        turn = parse(name, form.format(call=call))
        assert [(c.name, c.problem) for c in turn.calls] == [("f", None)], case


@pytest.mark.parametrize("name", ["llama3_json", "mistral", "mistral_args"])
@pytest.mark.parametrize("case", QUOTED)
def test_no_quoted_call_is_run_where_no_mark_closes_it(name, case):
    form = QUOTED[case].replace("<think>x</think>", "")
    if case == "a fence after a call":
        form = form.removeprefix("{call}")
    found = parse(name, form.format(call=WRITE[name]("f", "{}"))).calls
    assert all(c.problem for c in found)
    assert found or form.count("{call}") > 1, "the second call ends the first, and both are words"


@pytest.mark.parametrize("name", ["llama3_json", "mistral", "mistral_args"])
def test_a_quoted_call_that_no_mark_closes_is_never_run(name):
    call = WRITE[name]("f", "{}")
    for text in (f"Write `{call}` to look.", f"So:\n```\n{call}\n```\nThat is all."):
        assert "something follows" in only(name, text).problem


@pytest.mark.parametrize(
    "text",
    [
        'You would write {"name": "f", "parameters": {}} here.',
        '```json\n{"name": "f", "parameters": {}}\n```',
        '{"answer": 4}',
    ],
)
def test_json_in_an_answer_of_llama_is_an_answer(text):
    assert parse("llama3_json", text).calls == ()
    assert parse("llama3_json", text).text == text


def test_a_harmony_answer_may_speak_of_calls():
    text = f"<|channel|>final<|message|>{WRITE['hermes']('f', '{}')} to=functions.f{{}}"
    turn = parse("harmony", text)
    assert turn.calls == ()
    assert "to=functions.f" in turn.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"name": "f", "arguments": {}}', "use `parameters` instead of `arguments`"),
        ('{"name": "f"}', "`parameters` is missing"),
        ('[{"name": "f", "parameters": {}}]', "not an array"),
        ("{'name': 'f'}", "not valid JSON"),
        ('{"type": "function", "name": "f", "parameters": {}}', "not `type`"),
        ('{"name": "f", "parameters": {}} Done.', "something follows"),
        ('<|python_tag|>f.call(x="1")', "not valid JSON"),
    ],
)
def test_a_llama_turn_that_means_to_be_a_call_is_answered_as_one(text, why):
    assert why in only("llama3_json", text).problem


def test_several_bare_calls_of_llama_are_several_calls():
    one = '{"name": "f", "parameters": {}}'
    for text in (f"{one}; {one}", f"{one}\n{one}", f"<|python_tag|>{one};{one}"):
        assert [c.problem for c in parse("llama3_json", text).calls] == [None, None]


def test_calls_of_mistral_may_carry_ids():
    listed = '[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abcdefghi"}]'
    named = "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}[TOOL_CALLS]g[ARGS]{}"
    assert only("mistral", listed).problem is None
    assert [c.name for c in parse("mistral_args", named).calls] == ["f", "g"]
    assert FORMATS["mistral"].call_ids("[INST]x[/INST]" + listed) == ["abcdefghi"]
    assert FORMATS["mistral_args"].call_ids(f"{named}[/TOOL_RESULTS]" + named) == ["abcdefghi", ""]
    assert FORMATS["mistral"].call_ids("[INST][TOOL_CALLS] junk") == []
    assert "must be a string" in only("mistral", listed.replace('"abcdefghi"', "3")).problem


@pytest.mark.parametrize(
    "given", ["short", "abcdefghij", "abcd-fghi", "abcdéfghi", "", "[/INST]ab"]
)
def test_an_id_that_no_result_can_name_is_answered_as_a_malformed_call(given):
    listed = f'[TOOL_CALLS][{{"name": "f", "arguments": {{}}, "id": "{given}"}}]'
    named = f"[TOOL_CALLS]f[CALL_ID]{given}[ARGS]{{}}"
    for name, text in (("mistral", listed), ("mistral_args", named)):
        (found,) = parse(name, text).calls
        assert found.problem
        assert found.arguments == {}
        assert not any(FORMATS[name].call_ids(text))
    if "[" not in given:
        assert "nine letters or digits" in only("mistral_args", named).problem
    assert "nine letters or digits" in only("mistral", listed).problem


def test_each_call_in_a_list_of_mistral_is_judged_alone():
    text = '[TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g"}, 3]'
    problems = [c.problem for c in parse("mistral", text).calls]
    assert problems[0] is None
    assert all(problems[1:])
    assert "list of calls" in only("mistral", "[TOOL_CALLS][]").problem
    assert "list of calls" in only("mistral", '[TOOL_CALLS]{"name": "f", "arguments": {}}').problem


def test_the_two_ways_of_one_family_are_not_mixed():
    assert only("mistral", WRITE["mistral_args"]("f", "{}")).problem
    assert only("mistral_args", WRITE["mistral"]("f", "{}")).problem
    assert only("deepseek_v3", WRITE["deepseek_v31"]("f", "{}")).problem
    assert only("deepseek_v31", WRITE["deepseek_v3"]("f", "{}")).problem


def test_a_deepseek_call_that_is_not_closed_is_no_call():
    assert "does not follow" in only("deepseek_v31", f"{CALL}f{SEP}{{}}").problem
    calls = deepseek_mark("tool calls begin"), deepseek_mark("tool calls end")
    turn = parse("deepseek_v31", f"Look.{calls[0]}{WRITE['deepseek_v31']('f', '{}')}{calls[1]}")
    assert (turn.text, len(turn.calls)) == ("Look.", 1)


def test_channels_of_harmony_are_told_apart():
    turn = parse(
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I look.<|end|><|start|>assistant" + WRITE["harmony"]("f", '{"e": 1}'),
    )
    assert (turn.text, turn.reasoning) == ("I look.", "Hm.")
    assert turn.calls[0].arguments == {"e": 1}
    answer = parse(
        "harmony",
        "<|channel|>commentary<|message|>p<|end|><|start|>assistant"
        "<|channel|>final<|message|>4<|return|>",
    )
    assert answer.text == "4", "a preamble is no part of the answer"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" to=functions.f<|message|>{}", "commentary channel"),
        ("<|channel|>commentary to=functions.f", "<|message|> is missing"),
        ("<|channel|>commentary to=functions.<|message|>{}", "name of the tool is missing"),
        ("<|channel|>commentary to=functions.f to=functions.g<|message|>{}", "two recipients"),
        (" to=functions.g<|channel|>commentary to=functions.f<|message|>{}", "two recipients"),
        ("<|channel|>commentary to=f<|channel|>analysis<|message|>{}", "two channels"),
        ("<|channel|>commentary to=f <|constrain|>python<|message|>{}", "json, not python"),
        ("<|channel|>commentary to=f <|constrain|>json <|constrain|>x<|message|>{}", "constraints"),
    ],
)
def test_a_harmony_call_with_a_broken_header_is_answered(text, why):
    assert why in only("harmony", text).problem


def test_harmony_words_outside_of_messages_stay_words():
    assert parse("harmony", "just words").text == "just words"
    assert parse("harmony", "").text == ""


def test_names_of_other_recipients_are_kept():
    text = "<|channel|>commentary to=browser.search<|message|>{}"
    assert only("harmony", text).name == "browser.search"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("text", "5", "5"),
        ("text", "null", "null"),
        ("text", ' a "b"\n\nc ', ' a "b"\n\nc '),
        ("text", "", ""),
        ("text", "</tool_call>", "</tool_call>"),
        ("text", "a </parameter> b", "a </parameter> b"),
        ("text", "<think></think>", "<think></think>"),
        ("count", "5", 5),
        ("count", "five", "five"),
        ("count", "1.5", "1.5"),
        ("count", "1,", "1,"),
        ("count", "```\n5", "```\n5"),
        ("ratio", "5", 5),
        ("ratio", "-0.5", -0.5),
        ("ratio", "NaN", "NaN"),
        ("flag", "true", True),
        ("flag", "True", True),
        ("flag", "False", False),
        ("flag", "yes", "yes"),
        ("flag", "1", "1"),
        ("list", '[1, "a", {"b": null}]', [1, "a", {"b": None}]),
        ("list", "[1,]", "[1,]"),
        ("spot", '{"a": false}', {"a": False}),
        ("spot", '{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("spot", "[1]", "[1]"),
        ("size", "1", "1"),
        ("maybe", "null", None),
        ("maybe", "None", None),
        ("maybe", "7", 7),
        ("either", "7", 7),
        ("either", "seven", "seven"),
        ("types", "7", 7),
        ("choice", "1", 1),
        ("choice", "a", "a"),
        ("one", "True", True),
        ("any", "7", 7),
        ("any", "words", "words"),
        ("unknown", "7", "7"),
    ],
)
def test_text_between_tags_has_the_type_that_the_schema_names(key, text, value):
    found = only("qwen3_coder", write_coder("f", **{key: text}))
    assert found.problem is None
    assert found.arguments == {key: value}
    assert type(found.arguments[key]) is type(value)


def test_arguments_of_a_tool_nobody_knows_stay_text():
    assert only("qwen3_coder", write_coder("g", a="1")).arguments == {"a": "1"}
    assert only("qwen3_coder", write_coder("g", a="1")).name == "g"


def test_schemas_that_refer_to_themselves_end():
    loop = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": loop}}]
    (found,) = FORMATS["qwen3_coder"].parse(write_coder("f", a="1"), "stop", tools).calls
    assert found.arguments == {"a": 1}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"name": "f", "arguments": {}}', "<function=NAME> is missing"),
        ("<function=></function>", "name of the tool is missing"),
        ("<function=f>", "do not follow"),
        ("<function=f>junk</function>", "do not follow"),
        ("<function=f><parameter=a>1</function>", "not closed with </parameter>"),
        ("<function=f><parameter=a>1", "not closed with </parameter>"),
        ("<function=f><parameter=>1</parameter></function>", "name of a parameter is missing"),
        ("<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>", "twice"),
        ("<function=f><parameter=a>1\n<parameter=b>2</parameter></function>", "not closed"),
        ("<function=f><parameter=a>1</parameter> and </function>", "not closed"),
    ],
)
def test_what_is_no_tagged_call_is_refused_with_the_reason(body, why):
    found = only("qwen3_coder", f"<tool_call>\n{body}\n</tool_call>")
    assert why in found.problem
    assert found.arguments == {}
    assert "<parameter=KEY>" in found.problem


@pytest.mark.parametrize(
    "value",
    [
        'say "</parameter></function></tool_call>" ok',
        "x</parameter>\n</function>\n</tool_call>\n<b>",
        "x</parameter></function></tool_call> and </parameter> again",
    ],
)
def test_a_value_that_spells_the_end_of_its_call_is_refused_not_cut(value):
    found = parse("qwen3_coder", write_coder("f", text=value) + write_coder("f", count="1")).calls
    assert "closing tag stands behind" in found[0].problem
    assert [c.arguments for c in found] == [{}, {"count": 1}]
    ended = parse("qwen3_coder", write_coder("f", text="x") + "\nSo </think>").calls
    assert ended == ()


def test_a_forgotten_closing_tag_does_not_swallow_the_next_call():
    bad = "<tool_call>\n<function=f>\n<parameter=text>\n1\n</function>\n</tool_call>\n"
    worse = "<tool_call>\n<function=f>\n<parameter=text>\n1\n</tool_call>\n"
    for text in (bad, worse):
        calls = parse("qwen3_coder", text + write_coder("g", b="2")).calls
        assert [(c.problem is None, dict(c.arguments)) for c in calls] == [
            (False, {}),
            (True, {"b": "2"}),
        ]


def test_a_tagged_call_in_reasoning_or_cut_short_is_none():
    call = write_coder("f", count="1")
    assert parse("qwen3_coder", f"<think>{call}</think>done").calls == ()
    assert parse("qwen3_coder", f"{call}</think>done").calls == ()
    assert "length limit" in only("qwen3_coder", call[:50], "length").problem
    assert parse("qwen3_coder", f"Write\n```xml\n{call}\n```\nfor that.").calls == ()
