"""Templates of every family: golden renderings, exact continuations, calls that come back."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.errors import RenderError, UsageError
from agentrl.formats.table import FORMATS
from agentrl.message import Message, ToolCall
from agentrl.probe import said
from agentrl.render import renderer_for
from agentrl.template import Dress, Template, dressed, regular
from tests.families import FAMILIES, changed, deepseek_mark, tokenizer_of

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden_ids.json").read_text())

TYPES = {
    "at": {"type": "string"},
    "flag": {"type": "boolean"},
    "none": {"type": "null"},
    "count": {"type": "integer"},
    "more": {"type": "object"},
}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": TYPES},
    },
}
HEAD = [Message(role="system", content="S"), Message(role="user", content="Q?")]
USER = Message(role="user", content="And?")
NO_THOUGHT = "<think>\n\n</think>\n\n"
TOOL_JSON = json.dumps(TOOL)
PARAMETERS = json.dumps(TOOL["function"]["parameters"])


def call(name="look", **arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made):
    return Message(role="assistant", content="", tool_calls=list(made))


def seen(text="Seen.", name="look"):
    return Message(role="tool", content=text, name=name)


def ds(text):
    """Full-width marks of DeepSeek, written here with square brackets."""
    for words in (
        *("begin of sentence", "end of sentence", "User", "Assistant", "tool sep"),
        *(
            f"tool {a} {b}"
            for a in ("calls", "call", "output", "outputs")
            for b in ("begin", "end")
        ),
    ):
        text = text.replace(f"[{words}]", deepseek_mark(words))
    return text


ARGUMENTS = '{"at": "é", "flag": true}'
CHATML_TAIL = "<|im_end|>\n<|im_start|>user\n<tool_response>\nSeen.\n</tool_response>"
R1_TEXT = ds(
    f"[begin of sentence]S\n\n## Tools\n{TOOL_JSON}\n[User]Q?[Assistant][tool calls begin]"
    f"[tool call begin]function[tool sep]look\n```json\n{ARGUMENTS}\n```[tool call end]"
    "[tool calls end][end of sentence][tool outputs begin][tool output begin]Seen."
    "[tool output end][tool outputs end]"
)

# What each family's format is known to look like, for: system, user, a call, its result.
TEXTS = {
    "qwen3": (
        f"<|im_start|>system\nS\n\n# Tools\n<tools>\n{TOOL_JSON}\n</tools><|im_end|>\n"
        "<|im_start|>user\nQ?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
        f'{{"name": "look", "arguments": {ARGUMENTS}}}\n</tool_call>{CHATML_TAIL}'
        "<|im_end|>\n<|im_start|>assistant\n"
    ),
    "qwen3_coder": (
        "<|im_start|>system\nS\n\n# Tools\n<tools>\n<function>\n<name>look</name>\n"
        f"<description>Look.</description>\n<parameters>{PARAMETERS}</parameters>\n</function>\n"
        "</tools><|im_end|>\n<|im_start|>user\nQ?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
        "<function=look>\n<parameter=at>\né\n</parameter>\n<parameter=flag>\nTrue\n</parameter>\n"
        f"</function>\n</tool_call>{CHATML_TAIL}\n<|im_end|>\n<|im_start|>assistant\n"
    ),
    "llama3": (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\nS"
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nFunctions:\n\n"
        f"{json.dumps(TOOL, indent=4)}\n\nQ?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
        f'{{"name": "look", "parameters": {ARGUMENTS}}}<|eot_id|>'
        '<|start_header_id|>ipython<|end_header_id|>\n\n"Seen."<|eot_id|>'
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "mistral_v3": (
        f"<s>[AVAILABLE_TOOLS] [{TOOL_JSON}][/AVAILABLE_TOOLS][INST] S\n\nQ?[/INST]"
        f'[TOOL_CALLS] [{{"name": "look", "arguments": {ARGUMENTS}, "id": "call00000"}}]</s>'
        '[TOOL_RESULTS] {"content": "Seen.", "call_id": "call00000"}[/TOOL_RESULTS]'
    ),
    "mistral_v11": (
        f"<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][AVAILABLE_TOOLS][{TOOL_JSON}][/AVAILABLE_TOOLS]"
        f"[INST]Q?[/INST][TOOL_CALLS]look[CALL_ID]call00000[ARGS]{ARGUMENTS}</s>"
        "[TOOL_RESULTS]call00000[TOOL_CONTENT]Seen.[/TOOL_RESULTS]"
    ),
    "mistral_v13": (
        f"<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][AVAILABLE_TOOLS][{TOOL_JSON}][/AVAILABLE_TOOLS]"
        f"[INST]Q?[/INST][TOOL_CALLS]look[ARGS]{ARGUMENTS}</s>"
        "[TOOL_RESULTS]Seen.[/TOOL_RESULTS]"
    ),
    "deepseek_v3": R1_TEXT,
    "deepseek_r1": R1_TEXT,
    "deepseek_v31": ds(
        f"[begin of sentence]S\n\n## Tools\n{TOOL_JSON}\n[User]Q?[Assistant]</think>"
        f"[tool calls begin][tool call begin]look[tool sep]{ARGUMENTS}[tool call end]"
        "[tool calls end][end of sentence][tool output begin]Seen.[tool output end]"
    ),
    "gpt_oss": (
        "<|start|>system<|message|>Valid channels: analysis, commentary, final.<|end|>"
        "<|start|>developer<|message|># Instructions\n\nS\n\n# Tools\n\nnamespace functions {\n"
        f"// Look.\ntype look = (_: {PARAMETERS}) => any;\n}}<|end|><|start|>user<|message|>Q?"
        "<|end|><|start|>assistant to=functions.look<|channel|>commentary json<|message|>"
        f"{ARGUMENTS}<|call|><|start|>functions.look to=assistant<|channel|>commentary<|message|>"
        '"Seen."<|end|><|start|>assistant'
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param, renderer_for(tokenizer_of(request.param))


def sample(renderer, message):
    """Ids of a turn as a policy samples it that writes as its template does and thinks nothing."""
    template = renderer.calls.template
    end = renderer.closing_call if "tool_calls" in message else renderer.closing
    text = said(template, message).removeprefix(NO_THOUGHT)
    return [*template.encode(text), end[0]]


def arguments_of(parsed):
    return [(c.name, json.dumps(c.arguments), c.problem) for c in parsed.calls]


def test_each_template_proves_its_own_format(family):
    name, renderer = family
    assert renderer.format.name == FAMILIES[name].format


def test_a_conversation_renders_to_golden_ids(family):
    name, renderer = family
    ids = renderer.render([*HEAD, calls(call(at="é", flag=True)), seen()], [TOOL])
    assert renderer.tokenizer.decode(ids, skip_special_tokens=False) == TEXTS[name]
    assert ids == GOLDEN[name]


def test_calls_come_back_from_the_text_that_the_template_makes_of_them(family):
    _, renderer = family
    made = [call(at='a "b"\n日\\', flag=False, none=None, count=-3, more={"x": [True, None]})]
    if not renderer.calls.one:
        made.append(call("other"))
    turn = renderer.parse(sample(renderer, calls(*made)), "stop", [TOOL])
    assert turn.text == ""
    assert arguments_of(turn) == [
        (c["function"]["name"], json.dumps(c["function"]["arguments"]), None) for c in made
    ]


@given(
    at=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>[]\r")),
    flag=st.booleans(),
    count=st.integers(-(10**12), 10**12),
    more=st.dictionaries(st.text("ab é\"'\\"), st.one_of(st.none(), st.booleans(), st.text("x\n"))),
)
@settings(max_examples=20, deadline=None)
def test_any_arguments_come_back(family, at, flag, count, more):
    _, renderer = family
    made = call(at=at, flag=flag, none=None, count=count, more=more)
    turn = renderer.parse(sample(renderer, calls(made)), "stop", [TOOL])
    expected = json.dumps(made["function"]["arguments"])
    assert arguments_of(turn) == [("look", expected, None)]


@pytest.mark.parametrize("results", [1, 2])
def test_appended_results_equal_a_full_render(family, results):
    _, renderer = family
    if results > 1 and renderer.calls.one:
        pytest.skip("one call a turn")
    turn = calls(*(call(at=str(i)) for i in range(results)))
    news = [seen(f"Seen {i}.") for i in range(results)]
    prompt = renderer.render(HEAD, [TOOL])
    if renderer.opening.rstrip().endswith("<think>"):
        prompt = prompt[: -len(renderer.tokenizer.encode("<think>\n"))]
    ids = [*prompt, *sample(renderer, turn)]
    suffix = renderer.extend(ids, "stop", news)
    assert [*ids, *suffix.ids] == renderer.render([*HEAD, turn, *news], [TOOL])


def test_the_users_next_words_equal_a_full_render_or_begin_a_branch(family):
    name, renderer = family
    turn = Message(role="assistant", content="So.")
    ids = [*renderer.render(HEAD, [TOOL]), *renderer.tokenizer.encode("So."), renderer.closing[0]]
    suffix = renderer.extend(ids, "stop", [USER])
    full = renderer.render([*HEAD, turn, USER], [TOOL])
    if name in ("mistral_v3", "deepseek_r1", "gpt_oss"):
        assert suffix is None, "tools move, the prompt's thought goes, the end marker changes"
        assert full[: len(ids)] != ids
    else:
        assert [*ids, *suffix.ids] == full


def test_a_cut_turn_is_closed_as_the_template_closes_it(family):
    _, renderer = family
    ids = renderer.tokenizer.encode("cut")
    suffix = renderer.extend(ids, "length", [seen()])
    assert suffix.scaffold == renderer.closing_call
    whole = renderer.extend([*ids, renderer.closing_call[0]], "stop", [seen()])
    assert whole.observation == suffix.observation
    assert (renderer.closing_call[0], *whole.scaffold) == suffix.scaffold


def test_results_of_calls_nobody_could_read_are_rendered_all_the_same(family):
    _, renderer = family
    news = [Message(role="tool", content="malformed call", name="tool_call")]
    history = [*HEAD, Message(role="assistant", content="Look!"), *news, USER]
    text = renderer.tokenizer.decode(renderer.render(history, [TOOL]))
    assert "malformed call" in text
    assert renderer.extend([renderer.closing_call[0]], "stop", news) is not None


def test_words_that_look_like_the_probes_do_not_confuse_a_continuation(family):
    _, renderer = family
    ids = [renderer.closing_call[0]]
    suffix = renderer.extend(ids, "stop", [seen("Thismark. Thatthought")])
    assert "Thismark. Thatthought" in renderer.tokenizer.decode(suffix.observation)


@pytest.mark.parametrize("name", ["llama3", "gpt_oss"])
def test_a_template_of_one_call_a_turn_runs_the_first_and_says_so_of_the_second(name):
    renderer = renderer_for(tokenizer_of(name))
    one = {
        "llama3": '{"name": "look", "parameters": {"at": "1"}}\n',
        "gpt_oss": '<|channel|>commentary to=functions.look<|message|>{"at": "1"}<|call|>',
    }[name]
    turn = renderer.parse(renderer.tokenizer.encode(one + one), "stop", [TOOL])
    assert turn.calls[0] == ToolCall("look", {"at": "1"})
    assert "one call per turn" in turn.calls[1].problem
    assert turn.calls[1].arguments == {}
    assert renderer.render([*HEAD, turn.message(), seen(), seen("one call per turn")], [TOOL])


def test_every_end_marker_of_a_family_stops_and_is_taken_off():
    ends = {
        "llama3": ["<|eot_id|>", "<|eom_id|>"],
        "gpt_oss": ["<|return|>", "<|call|>"],
        "mistral_v3": ["</s>"],
        "deepseek_v31": [deepseek_mark("end of sentence")],
    }
    for name, marks in ends.items():
        renderer = renderer_for(tokenizer_of(name))
        ids = [renderer.tokenizer.encode(mark)[-1] for mark in marks]
        assert sorted(renderer.stop_token_ids) == sorted(ids)
        for end in ids:
            assert renderer.parse([*renderer.tokenizer.encode("4"), end], "stop").text == "4"


def test_another_end_marker_that_was_sampled_stays_and_is_not_doubled():
    renderer = renderer_for(tokenizer_of("llama3"))
    (end,) = renderer.ends
    assert renderer.extend([end], "stop", [seen()]).scaffold == ()
    assert renderer.extend([], "length", [seen()]).scaffold == renderer.closing


def test_results_name_the_ids_that_the_policy_gave_its_calls():
    said_by = {
        "mistral_v3": '[TOOL_CALLS] [{"name": "look", "arguments": {}, "id": "abcdefghi"}]</s>',
        "mistral_v11": "[TOOL_CALLS]look[CALL_ID]abcdefghi[ARGS]{}</s>",
    }
    for name, text in said_by.items():
        renderer = renderer_for(tokenizer_of(name))
        prompt = renderer.render([*HEAD, calls(call()), seen()], [TOOL])
        ids = [*prompt, *renderer.tokenizer.encode(text, add_special_tokens=False)]
        suffix = renderer.extend(ids, "stop", [seen("1"), seen("2")])
        answer = renderer.tokenizer.decode(suffix.observation)
        assert answer.count("abcdefghi") == 1
        assert answer.index("abcdefghi") < answer.index("2")


def test_a_turn_begins_inside_the_reasoning_that_its_prompt_opens():
    renderer = renderer_for(tokenizer_of("deepseek_r1"))
    encode = renderer.tokenizer.encode
    prompt = renderer.render(HEAD, [TOOL])
    inside = encode(said(renderer.calls.template, calls(call(at="1"))))
    assert renderer.parse(inside, "stop", [TOOL], prompt).calls == ()
    assert len(renderer.parse(inside, "stop", [TOOL]).calls) == 1
    thought = [*encode("Hm.</think>"), *inside]
    turn = renderer.parse(thought, "stop", [TOOL], prompt)
    assert (turn.reasoning, len(turn.calls)) == ("Hm.", 1)
    ids = [*prompt, *thought, renderer.closing[0]]
    assert renderer.extend(ids, "stop", [seen()]) is None, "no thought of it is ever kept"


def test_reasoning_is_kept_at_results_and_dropped_when_the_user_speaks():
    for name, thought in {
        "qwen3": "<think>\nHm.\n</think>\n\n",
        "gpt_oss": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant",
    }.items():
        renderer = renderer_for(tokenizer_of(name))
        turn = Message(
            role="assistant", content="", tool_calls=[call(at="1")], reasoning_content="Hm."
        )
        body = said(renderer.calls.template, calls(call(at="1"))).removeprefix(NO_THOUGHT)
        sampled = [*renderer.tokenizer.encode(thought + body), renderer.closing_call[0]]
        ids = [*renderer.render(HEAD, [TOOL]), *sampled]
        assert renderer.parse(sampled, "stop", [TOOL]).message() == turn
        suffix = renderer.extend(ids, "stop", [seen()])
        assert [*ids, *suffix.ids] == renderer.render([*HEAD, turn, seen()], [TOOL])
        assert renderer.extend(ids, "stop", [seen(), USER]) is None


def test_an_empty_thought_that_every_prompt_begins_with_is_no_reasoning():
    renderer = renderer_for(tokenizer_of("deepseek_v31"))
    prompt, end = renderer.render(HEAD, [TOOL]), renderer.closing[0]
    assert renderer.extend([*prompt, end], "stop", [USER]) is not None
    thought = renderer.tokenizer.encode("Hm.</think>")
    assert renderer.extend([*prompt, *thought, end], "stop", [USER]) is None


def test_a_dress_changes_copies_only():
    history = [*HEAD, calls(call(at="é"), call()), seen(), seen(), seen()]
    before = json.dumps(history)
    out = dressed(history, Dress(json_arguments=True, ids=True, reasoning="thinking"))
    assert json.dumps(history) == before
    ids = [c["id"] for c in out[2]["tool_calls"]]
    assert [m["tool_call_id"] for m in out[3:]] == [*ids, "call00002"]
    assert out[2]["tool_calls"][0]["function"]["arguments"] == '{"at": "é"}'
    chosen = dressed(history, Dress(ids=True), ["abcdefghi", ""])
    assert [c["id"] for c in chosen[2]["tool_calls"]] == ["abcdefghi", "call00000"]


def test_only_results_without_any_call_become_words_of_the_user():
    history = [*HEAD, calls(call()), seen("1"), Message(role="assistant", content="")]
    history += [seen("2"), seen("3"), USER]
    roles = [(m["role"], m["content"]) for m in regular(history)][3:]
    assert roles == [("tool", "1"), ("assistant", ""), ("user", "2\n3"), ("user", "And?")]


def test_a_thought_beside_words_and_a_call_goes_where_a_template_refuses_it():
    turn = {**calls(call()), "content": "So.", "reasoning_content": "Hm."}
    plain = {**calls(call()), "reasoning_content": "Hm."}
    assert regular([turn, plain]) == [{**calls(call()), "content": "So."}, plain]
    assert turn["reasoning_content"] == "Hm."


def test_a_template_that_writes_calls_only_where_no_words_are_gets_none():
    none = "{%- for call in (message.tool_calls or [] if message.content is none else []) -%}"
    with changed("deepseek_v3", "{%- for call in message.tool_calls or [] -%}", none) as tokenizer:
        tokenizer.chat_template = tokenizer.chat_template.replace(
            "{{- message.content -}}\n        {%- for", "{{- message.content or '' -}}{%- for"
        )
        renderer = renderer_for(tokenizer)
        assert renderer.calls.template.dress == Dress(json_arguments=True, bare_calls=True)
        turn = Message(role="assistant", content="I look.", tool_calls=[call(at="1")])
        assert "tool sep" in tokenizer.decode(
            renderer.render([*HEAD, turn, seen()], [TOOL])
        ).replace("\u2581", " ")


def test_a_prompt_that_opens_a_thought_goes_on_where_the_template_keeps_it():
    opened = "{{- '<|im_start|>assistant\\n<think>\\n' -}}"
    with changed(
        "qwen3", "{{- '<|im_start|>assistant\\n' -}}{%- endif -%}", opened + "{%- endif -%}"
    ) as t:
        renderer = renderer_for(t)
        prompt = renderer.render(HEAD, [TOOL])
        body = said(renderer.calls.template, calls(call(at="1"))).removeprefix(NO_THOUGHT)
        sampled = [*t.encode(f"Hm.\n</think>\n\n{body}"), renderer.closing_call[0]]
        turn = renderer.parse(sampled, "stop", [TOOL], prompt)
        assert (turn.reasoning, len(turn.calls)) == ("Hm.", 1)
        ids = [*prompt, *sampled]
        suffix = renderer.extend(ids, "stop", [seen()])
        assert [*ids, *suffix.ids] == renderer.render([*HEAD, turn.message(), seen()], [TOOL])
        assert renderer.extend(ids, "stop", [USER]) is None


def test_a_conversation_that_no_mending_makes_right_is_refused_with_the_reason():
    renderer = renderer_for(tokenizer_of("llama3"))
    with pytest.raises(RenderError, match="single call"):
        renderer.render([*HEAD, calls(call(), call())], [TOOL])


def test_a_template_that_refuses_every_call_is_refused_with_its_own_words():
    with (
        changed("llama3", "length != 1", "length > 0") as tokenizer,
        pytest.raises(UsageError, match="single call"),
    ):
        renderer_for(tokenizer)


def test_control_tokens_without_a_role_are_special_too():
    template = Template(tokenizer_of("gpt_oss"))
    (call_end,) = template.encode("<|call|>")
    assert call_end in template.special_ids()


@pytest.mark.filterwarnings("ignore")
def test_the_list_of_mistral_is_what_its_own_library_writes():
    common = pytest.importorskip("mistral_common")
    tokens = pytest.importorskip("mistral_common.tokens.tokenizers.mistral")
    request = pytest.importorskip("mistral_common.protocol.instruct.request")
    made = {"id": "call00000", "function": {"name": "look", "arguments": ARGUMENTS}}
    messages = [
        *HEAD,
        {"role": "assistant", "content": "", "tool_calls": [made]},
        {"role": "tool", "content": "Seen.", "tool_call_id": "call00000", "name": "look"},
    ]
    asked = request.ChatCompletionRequest(messages=messages, tools=[TOOL])
    folder = Path(common.__file__).parent / "data"
    written = {}
    for version in ("240323.model.v3", "241114.model.v7"):
        file = folder / f"mistral_instruct_tokenizer_{version}"
        tokenizer = tokens.MistralTokenizer.from_file(str(file))
        text = tokenizer.encode_chat_completion(asked).text
        written[version[-2:]] = text.replace("\u2581", " ").replace("<0x0A>", "\n")
    theirs = written["v3"].partition("[/AVAILABLE_TOOLS]")[2]
    assert theirs == TEXTS["mistral_v3"].partition("[/AVAILABLE_TOOLS]")[2]
    turn = FORMATS["mistral"].parse(written["v7"].split("[/INST]")[1].split("</s>")[0], "stop", [])
    assert arguments_of(turn) == [("look", json.dumps({"at": "é", "flag": True}), None)]
