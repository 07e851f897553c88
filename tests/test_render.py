import json

import pytest

from agentrl.errors import UsageError
from agentrl.message import Message
from agentrl.render import difference, renderer_for
from tests.doubles import ReadableTokenizer, forgetful_template, hermes_template

TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
}


def result(text):
    return Message(role="tool", content=text, name="add")


def test_sampled_ids_are_never_encoded_again():
    tokenizer = ReadableTokenizer(["he", "llo", "hello"])
    renderer = renderer_for(tokenizer)
    he, llo, hello = (tokenizer.encode(w)[0] for w in ("he", "llo", "hello"))
    end = renderer.stop_token_ids[0]
    prompt = renderer.render([Message(role="user", content="Hi")])
    ids = [*prompt, he, llo, end]
    suffix = renderer.extend(ids, "stop", [Message(role="user", content="Again?")])
    following = [*ids, *suffix.ids]
    assert following[len(prompt) : len(prompt) + 2] == [he, llo]
    assert hello not in following


def test_a_continuation_equals_a_full_render_with_its_boundary_tokens():
    tokenizer = ReadableTokenizer()
    renderer = renderer_for(tokenizer)
    said = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    ask = [Message(role="system", content="S"), Message(role="user", content="Q")]
    prompt = renderer.render(ask, [TOOL])
    ids = [*prompt, *tokenizer.encode(said), renderer.stop_token_ids[0]]
    suffix = renderer.extend(ids, "stop", [result("3")])
    turn = renderer.parse(ids[len(prompt) :], "stop")
    full = renderer.render([*ask, turn.message(), result("3")], [TOOL])
    assert [*ids, *suffix.ids] == full
    assert tokenizer.decode(suffix.scaffold) == "\n"
    assert tokenizer.decode(suffix.observation).startswith("<|im_start|>user\n<tool_response>")


def test_two_results_share_one_user_turn():
    tokenizer = ReadableTokenizer()
    renderer = renderer_for(tokenizer)
    suffix = renderer.extend([renderer.closing[0]], "stop", [result("1"), result("2")])
    text = tokenizer.decode(suffix.ids)
    assert text.count("<|im_start|>user") == 1
    assert text.count("<tool_response>") == 2


def test_a_turn_cut_by_length_is_closed_by_scaffold():
    tokenizer = ReadableTokenizer()
    renderer = renderer_for(tokenizer)
    suffix = renderer.extend(tokenizer.encode("cut"), "length", [result("1")])
    assert tokenizer.decode(suffix.scaffold) == "<|im_end|>\n"


def test_a_template_that_drops_reasoning_asks_for_a_new_branch_only_where_it_matters():
    tokenizer = ReadableTokenizer(template=forgetful_template)
    renderer = renderer_for(tokenizer)
    assert renderer.drops_reasoning
    end = renderer.closing[0]
    thought = [*tokenizer.encode("<think>\nHm.\n</think>\n\nSo."), end]
    user = [Message(role="user", content="And?")]
    assert renderer.extend(thought, "stop", user) is None
    assert renderer.extend([*tokenizer.encode("So."), end], "stop", user) is not None
    assert renderer.extend(thought, "stop", [result("1")]) is not None


def test_the_end_marker_is_the_templates_own_not_the_tokenizers_end_of_text():
    tokenizer = ReadableTokenizer()
    tokenizer.eos_token_id = 2
    renderer = renderer_for(tokenizer)
    assert renderer.stop_token_ids == (1, 2)
    assert renderer.parse([*tokenizer.encode("4"), 1], "stop").text == "4"
    assert renderer.parse([*tokenizer.encode("4"), 2], "stop").text == "4"


def plain_template(messages, tools, generation_prompt):
    return hermes_template(messages, None, generation_prompt)


def counting_template(messages, tools, generation_prompt):
    return f"{len(messages)} messages\n" + hermes_template(messages, tools, generation_prompt)


def endless_template(messages, tools, generation_prompt):
    return hermes_template(messages, tools, generation_prompt).replace("<|im_end|>\n", "\n")


def other_calls_template(messages, tools, generation_prompt):
    return hermes_template(messages, tools, generation_prompt).replace("tool_call>", "call>")


def raising_template(messages, tools, generation_prompt):
    raise ValueError("roles must alternate")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (counting_template, "changes an earlier turn|generation prompt is not"),
        (endless_template, "end marker|not one token"),
        (other_calls_template, "which is none of hermes, "),
        (raising_template, "refuses a conversation"),
        (None, "no chat template"),
    ],
)
def test_a_template_that_cannot_be_appended_to_is_refused_with_the_reason(template, reason):
    with pytest.raises(UsageError, match=reason):
        renderer_for(ReadableTokenizer(template=template))


def test_a_model_without_place_for_tools_plays_only_environments_without_tools():
    renderer = renderer_for(ReadableTokenizer(template=plain_template))
    assert renderer.render([Message(role="user", content="Hi")])
    with pytest.raises(UsageError, match="no place for tools"):
        renderer.render([Message(role="user", content="Hi")], [TOOL])


def test_comparing_structure_forgives_other_cuts_of_words_but_no_lost_marker():
    tokenizer = ReadableTokenizer(["he", "llo", "hello"])
    cut, whole = tokenizer.encode("he") + tokenizer.encode("llo"), tokenizer.encode("hello")
    start, end = 0, 1
    assert difference(tokenizer, [start, *cut, end], [start, *whole, end]) is None
    assert difference(tokenizer, [start, *whole], [start, *whole, end]) is not None
    assert difference(tokenizer, [start, *whole, end, 1010], [start, *whole, end]) is not None


def test_arguments_are_rendered_as_they_were_sampled_because_they_are_not_rendered_again():
    tokenizer = ReadableTokenizer()
    renderer = renderer_for(tokenizer)
    said = '<tool_call>{"arguments":{"flag":false,"n":null},"name":"add"}</tool_call>'
    ids = [*tokenizer.encode(said), renderer.closing[0]]
    suffix = renderer.extend(ids, "stop", [result("ok")])
    assert tokenizer.decode([*ids, *suffix.ids]).startswith(said)
    call = renderer.parse(ids, "stop").calls[0]
    assert call.arguments == {"flag": False, "n": None}
    assert json.dumps(call.arguments) == '{"flag": false, "n": null}'


def test_a_long_result_loses_its_middle_with_a_notice():
    renderer = renderer_for(ReadableTokenizer())
    text = "a" * 50 + "b" * 50
    clipped = renderer.clip(text, 10)
    assert clipped.startswith("aaaaa\n[")
    assert clipped.endswith("]\nbbbbb")
    assert "90 tokens" in clipped
    assert renderer.clip(text, 100) == text
