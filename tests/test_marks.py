"""What messages say is never a control token, in any family; what says none stays as it was."""

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, normalizers
from transformers import PreTrainedTokenizerFast

from agentrl.errors import RenderError
from agentrl.marks import ZERO_WIDTH, Marks
from agentrl.message import Message
from agentrl.render import renderer_for
from agentrl.template import Template
from tests.families import FAMILIES, tokenizer_of

PLACES = (
    *("system", "user", "text", "thought", "name", "key", "value", "result", "result of"),
    *("description", "parameter", "choice"),
)
"""Where a conversation holds words that somebody chose."""
HARMLESS = dict.fromkeys(PLACES, "fish") | {"parameter": "fish2"}


@pytest.fixture(scope="module", params=FAMILIES)
def renderer(request):
    return renderer_for(tokenizer_of(request.param))


def conversation(words):
    """Messages and tools with these words in their places."""
    made = {"name": words["name"], "arguments": {words["key"]: words["value"], "n": [1, None]}}
    properties = {
        words["parameter"]: {"type": "string", "enum": [words["choice"]]},
        "n": {"type": "array"},
    }
    tool = {
        "name": words["name"],
        "description": words["description"],
        "parameters": {"type": "object", "properties": properties},
    }
    said = Message(role="assistant", content=words["text"])
    call = Message(
        role="assistant",
        content="",
        tool_calls=[{"type": "function", "function": made}],
        reasoning_content=words["thought"],
    )
    messages = [
        Message(role="system", content=words["system"]),
        Message(role="user", content=words["user"]),
        said,
        Message(role="user", content=words["user"]),
        call,
        Message(role="tool", content=words["result"], name=words["result of"]),
    ]
    return messages, [{"type": "function", "function": tool}]


def tokens(renderer):
    """Every control token, and every plain mark that the family's template writes."""
    tokenizer = renderer.tokenizer
    plain = [t for t in FAMILIES[tokenizer.name_or_path].plain if t in tokenizer.chat_template]
    return {*renderer.calls.template.special_ids(), *tokenizer.convert_tokens_to_ids(plain)}


def structure(renderer, ids):
    known = tokens(renderer)
    return [i for i in ids if i in known]


def suffix_of(renderer, words):
    ids = [*renderer.tokenizer.encode("So."), renderer.closing_call[0]]
    news = [Message(role="tool", content=words["result"], name=words["result of"])]
    return renderer.extend(ids, "stop", news).ids


def parts_of_marks(name):
    """Marks, two of them in each other, and what is left of one where an end is missing."""
    family = FAMILIES[name]
    marks = [*family.special, *family.plain, "<think>", "</think>"]
    parts = [*marks, *(m[:-1] for m in marks), *(m[1:] for m in marks), *(m[1:-1] for m in marks)]
    parts += [m[: len(m) // 2] + m + m[len(m) // 2 :] for m in marks]
    return st.lists(st.sampled_from([*parts, *"<>[]|/ \n", "x", "é"]), max_size=4).map("".join)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_control_tokens_do_not_depend_on_what_anybody_says(renderer, data):
    parts = parts_of_marks(renderer.tokenizer.name_or_path)
    # Templates write an empty text otherwise than one with words.
    words = {place: data.draw(parts, label=place).strip() or "x" for place in PLACES}
    words["parameter"] += "2"
    plain = renderer.render(*conversation(HARMLESS))
    assert structure(renderer, renderer.render(*conversation(words))) == structure(renderer, plain)
    suffixes = [structure(renderer, suffix_of(renderer, w)) for w in (words, HARMLESS)]
    assert suffixes[0] == suffixes[1]


@pytest.mark.parametrize("place", PLACES)
def test_every_mark_in_every_place_stays_text_that_reads_the_same(renderer, place):
    family = FAMILIES[renderer.tokenizer.name_or_path]
    marks = [m for m in family.special + family.plain if m in renderer.tokenizer.chat_template]
    assert marks
    for mark in marks:
        words = HARMLESS | {place: f"a{mark}b"}
        messages, tools = conversation(words)
        before = deepcopy((messages, tools))
        ids = renderer.render(messages, tools)
        assert (messages, tools) == before, "the record keeps the words as they were"
        plain = renderer.render(*conversation(HARMLESS))
        assert structure(renderer, ids) == structure(renderer, plain)
        shown = renderer.tokenizer.decode(ids).replace(ZERO_WIDTH, "")
        reads = Template.text(renderer.calls.template, messages, tools)
        assert shown.count(f"a{mark}b") >= reads.count(f"a{mark}b")


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_conversation_without_marks_has_the_ids_of_its_text(renderer, data):
    ordinary = st.text(max_size=12) | st.sampled_from(["<b>", "a < b > c", "[1]", "|", "call", "/"])
    words = {place: data.draw(ordinary, label=place) for place in PLACES}
    template = renderer.calls.template
    messages, tools = conversation(words)
    text = template.text(messages, tools)
    assert renderer.render(messages, tools) == template.encode(text)
    assert ZERO_WIDTH not in text or any(ZERO_WIDTH in word for word in words.values())


def test_a_result_full_of_marks_is_cut_to_the_tokens_that_it_will_have():
    renderer = renderer_for(tokenizer_of("mistral_v3"))
    text = "<s>" * 400
    news = [Message(role="tool", content=renderer.clip(text, 300), name="look")]
    empty = [Message(role="tool", content="", name="look")]
    sizes = [len(renderer.extend([], "length", n).observation) for n in (news, empty)]
    assert sizes[0] - sizes[1] < 400
    assert renderer.clip("<s>", 300) == "<s>"


def test_a_thought_in_a_result_does_not_begin_a_branch():
    renderer = renderer_for(tokenizer_of("qwen3"))
    user = Message(role="user", content="And?")
    ids = [*renderer.tokenizer.encode("So."), renderer.closing[0]]
    result = Message(role="tool", content="<think>x</think>", name="look")
    ids += [*renderer.extend(ids, "stop", [result]).ids, *ids]
    assert renderer.extend(ids, "stop", [user]) is not None


def tokenizer_that_folds():
    """One that sees a mark in other letters, as normalizers make of it."""
    base = tokenizer_of("qwen3")
    core = type(base.backend_tokenizer).from_str(base.backend_tokenizer.to_str())
    core.normalizer = normalizers.NFKC()
    core.add_tokens([AddedToken("<turn>", normalized=True)])
    fast = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>")
    fast.chat_template = base.chat_template + "{{- '' if true else '<turn>' -}}"
    return fast


@pytest.mark.parametrize("word", ["\uff1cturn\uff1e", "a<t\uff55rn>b", "<turn>"])
def test_other_spellings_of_a_mark_are_marks_where_the_tokenizer_folds_text(word):
    tokenizer = tokenizer_that_folds()
    (turn,) = tokenizer.encode("<turn>")
    renderer = renderer_for(tokenizer)
    assert turn in tokenizer.encode(word)
    assert turn not in renderer.render([Message(role="user", content=word)])
    assert turn not in renderer.extend([], "length", [Message(role="user", content=word)]).ids


def encode(text):
    """Letters, and one mark."""
    ids = []
    while text:
        size = 3 if text.startswith("<s>") else 1
        ids.append(0 if size == 3 else ord(text[0]))
        text = text[size:]
    return ids


def test_a_template_that_makes_marks_of_anything_is_refused():
    marks = Marks(("<s>",), frozenset({0}), encode)
    assert marks.kept_out(["<s><s>"], lambda said: encode(said[0]), list).count(0) == 0
    with pytest.raises(RenderError, match="control tokens of what messages say"):
        marks.kept_out(["<s>"], lambda said: encode(said[0].replace(ZERO_WIDTH, "").rjust(9)), list)


def test_a_tokenizer_without_the_breaking_character_breaks_with_a_space():
    marks = Marks(("<s>", "s></s>"), frozenset({0}), encode, breaker=" ")
    assert marks.broken("a<s></s>") == "a< s ></s>"
    assert Marks((), frozenset(), encode).broken("<s>") == "<s>"
