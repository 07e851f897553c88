import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.exact import evaluate
from agentrl.message import Message
from agentrl.registry import make
from agentrl.render import renderer_for
from agentrl.tiny import FOLDER
from agentrl.tiny.__main__ import build, classroom
from agentrl.tiny.demonstrations import (
    HABITS,
    conversation,
    demonstrate,
    expression_of,
    parts_of,
    spoken,
)
from agentrl.tiny.lessons import copies, lessons
from agentrl.tiny.measure import shares
from agentrl.tiny.model import new_model
from agentrl.tiny.teaching import PHASES, Phase, learning_rate, loss_of, teach
from agentrl.tiny.tokenizer import END, HEADER, PAD, START, TAGS
from agentrl.weights import load_policy

PROVENANCE = json.loads((FOLDER / "provenance.json").read_text(encoding="utf-8"))
MIXTURE = PHASES[-1].habits


@pytest.fixture(scope="module")
def policy():
    return load_policy("tiny")


@pytest.fixture(scope="module")
def school():
    return classroom(0)


@pytest.fixture(scope="module")
def room(school):
    return school[0]


@pytest.fixture(scope="module")
def encode(policy):
    return lambda text: policy.tokenizer.encode(text, add_special_tokens=False)


@settings(max_examples=300)
@given(st.text())
def test_any_unicode_text_comes_back_from_its_tokens(text):
    tokenizer = _tokenizer()
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def _tokenizer(kept=[]):  # noqa: B006 - hypothesis forbids fixtures that are made once
    if not kept:
        kept.append(load_policy("tiny").tokenizer)
    return kept[0]


def test_digits_and_tags_are_single_tokens(encode):
    for text in (*"0123456789", *TAGS, START, END, PAD, "\n"):
        assert len(encode(text)) == 1, text
    assert len(encode("1234567890")) == 10


def test_skipping_special_tokens_leaves_calls_readable(policy, encode):
    ids = encode("<tool_call>\n{}\n</tool_call><|im_end|>")
    assert policy.tokenizer.decode(ids, skip_special_tokens=True) == "<tool_call>\n{}\n</tool_call>"


def test_a_prompt_takes_few_tokens(policy):
    env = make("tool_math")
    renderer = renderer_for(policy.tokenizer)
    source = env.task_source("test")
    lengths = []
    for i in range(50):
        opening, _ = env.reset(options={"task": source[i]})
        lengths.append(len(renderer.render(opening, env.tool_schemas())))
    env.close()
    assert max(lengths) < 130
    assert np.mean(lengths) < 110


def test_appended_turns_are_exactly_what_a_full_render_has(policy):
    renderer = renderer_for(policy.tokenizer)
    tools = make("tool_math").tool_schemas()
    arguments = {"expression": "2*(3+4)", "note": 'ä "x" </b>'}
    call = {"type": "function", "function": {"name": "calculator", "arguments": arguments}}
    history = [
        Message(role="system", content="Be exact."),
        Message(role="user", content="What is 2*(3+4), twice?"),
    ]
    turns = [
        (
            Message(role="assistant", content="First", tool_calls=[call, call]),
            [Message(role="tool", content="14"), Message(role="tool", content="1\n\n4")],
        ),
        (Message(role="assistant", content="Answer: 28"), [Message(role="user", content="And?")]),
        (
            Message(role="assistant", content="", reasoning_content="Hm.", tool_calls=[call]),
            [Message(role="tool", content="")],
        ),
    ]
    ids = renderer.render(history, tools)
    for said, news in turns:
        whole = policy.tokenizer.apply_chat_template([*history, said], tools=tools, tokenize=False)
        sampled = _encoded(policy, whole)[len(ids) : -1]
        suffix = renderer.extend([*ids, *sampled], "stop", news)
        ids += [*sampled, *suffix.ids]
        history += [said, *news]
        assert ids == renderer.render(history, tools)


def _encoded(policy, text):
    return policy.tokenizer.encode(text, add_special_tokens=False)


def test_results_of_one_turn_share_one_user_turn(policy):
    text = policy.tokenizer.apply_chat_template(
        [
            Message(role="user", content="?"),
            Message(role="assistant", content="!"),
            Message(role="tool", content="1"),
            Message(role="tool", content="2"),
        ],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert text.endswith(
        "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n"
        "</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_policy_is_small_and_runs_where_vllm_runs(policy):
    config = policy.model.config
    assert policy.model.num_parameters() < 1_200_000
    assert (config.model_type, config.head_dim, config.max_position_embeddings) == (
        "llama", 32, 32768,
    )  # fmt: skip
    assert sum(f.stat().st_size for f in FOLDER.iterdir() if f.is_file()) < 4_000_000


def test_the_record_tells_what_the_policy_was_taught(policy, school):
    room, digest = school
    assert PROVENANCE["data_sha256"] == digest
    assert PROVENANCE["vocabulary"] == len(policy.tokenizer)
    assert policy.tokenizer.get_vocab() == room.tokenizer.get_vocab()
    assert policy.tokenizer.chat_template == room.tokenizer.chat_template
    assert PROVENANCE["parameters"] == policy.model.num_parameters()
    assert [p["habits"] for p in PROVENANCE["phases"]] == [p.habits for p in PHASES]


def test_the_start_is_honest_and_leaves_room_for_reinforcement(policy, room):
    source = make("tool_math").task_source("test")
    found = shares(policy.model, room, [source[i] for i in range(200)], temperature=1.0)
    assert sum(found.values()) == pytest.approx(1)
    assert 0.15 < found["right"] < 0.5
    assert found["guess"] > 0.2
    assert found["broken"] < 0.1


def test_habits_are_what_they_say(room):
    rng = np.random.default_rng(0)
    for task in (room.tasks[i] for i in range(200)):
        whole = expression_of(task)
        right, part, misread, guess = (HABITS[h](task, rng) for h in HABITS)
        assert (right.expression, right.result, right.answer) == (whole, task.answer, task.answer)
        assert part.expression in parts_of(whole)
        assert part.expression != whole
        assert whole.startswith(part.expression)
        assert part.answer == part.result == evaluate(part.expression)
        assert (misread.expression, misread.result) == (whole, task.answer)
        wrong = [a != b for a, b in zip(misread.answer, task.answer, strict=True)]
        assert sum(wrong) == 1
        assert guess.expression is None
        assert guess.answer.isdigit()


def test_habits_are_drawn_in_their_shares_and_only_from_train(room):
    rng = np.random.default_rng(0)
    tasks = [room.tasks[i] for i in range(1000)]
    assert {t.split for t in tasks} == {"train"}
    talks = [demonstrate(t, room.system, MIXTURE, rng) for t in tasks]
    calls = Counter(len(talk) for talk in talks)
    assert calls[3] / 1000 == pytest.approx(MIXTURE["guess"], abs=0.05)
    correct = sum(
        len(talk) == 5 and talk[-1]["content"] == f"Answer: {t.answer}"
        for talk, t in zip(talks, tasks, strict=True)
    )
    assert correct / 1000 == pytest.approx(MIXTURE["right"], abs=0.05)


def test_only_what_the_policy_says_is_taught(room, encode):
    task = room.tasks[0]
    ids = room.encode(conversation(task, room.system, HABITS["right"](task, None)))
    mask = spoken(ids, encode(HEADER), encode(END)[0])
    said = room.tokenizer.decode([i for i, taught in zip(ids, mask, strict=True) if taught])
    assert said == f"{task.reference[0]}{END}{task.reference[1]}{END}"


def test_lessons_repeat_and_start_alike(room):
    first, second = (list(islice(lessons(room, MIXTURE, 4, [1, 2]), 20)) for _ in range(2))
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(first, second, strict=True))
    for batch in first:
        assert (batch.ids[:, : batch.shared] == batch.ids[:1, : batch.shared]).all()
        assert not batch.taught[:, : batch.shared].any()
        assert batch.taught.any(dim=1).all()


def test_copies_say_a_row_twice(room):
    for batch in islice(copies(room, 3, [0]), 30):
        half = batch.ids.shape[1] // 2
        assert torch.equal(batch.ids[:, :half], batch.ids[:, half:-1])
        assert batch.taught.sum(dim=1).tolist() == [half] * 3


def test_a_shared_beginning_changes_neither_loss_nor_gradient(room):
    batch = next(lessons(room, MIXTURE, 8, [0]))
    model = new_model(room.tokenizer, 0)
    results = []
    for shared in (0, batch.shared):
        model.zero_grad()
        loss = loss_of(model, type(batch)(batch.ids, batch.taught, shared))
        loss.backward()
        results.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_teaching_lowers_the_loss_and_reports_progress(room):
    model = new_model(room.tokenizer, 0)
    phase = Phase("trial", 100, 8, 3e-3, 0.1, {"right": 1.0})
    lines = []
    before = loss_of(model, next(lessons(room, phase.habits, 8, [3]))).item()
    after = teach(model, phase, lessons(room, phase.habits, 8, [3]), lines.append)
    assert after < before / 2
    assert len(lines) == 2
    assert "trial 100/100" in lines[-1]


def test_the_learning_rate_rises_and_falls():
    phase = Phase("trial", 1000, 1, 1.0, 0.1)
    rates = [learning_rate(phase, step) for step in range(phase.steps)]
    assert rates[0] < 0.05
    assert max(rates) > 0.98
    assert rates[-1] == pytest.approx(0.1, abs=0.01)


def test_equal_seeds_give_equal_weights(room):
    a, b, c = (new_model(room.tokenizer, seed).state_dict() for seed in (5, 5, 6))
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(a[name], b[name])
    assert not torch.equal(a[name], c[name])


@pytest.mark.slow
def test_a_rebuild_writes_a_folder_that_loads_and_repeats(tmp_path):
    for name in ("a", "b"):
        build(tmp_path / name, 0, 0.004)
    files = {f.name: f.read_bytes() for f in (tmp_path / "a").iterdir()}
    assert {f.name for f in FOLDER.iterdir() if f.is_file() and f.suffix != ".py"} == set(files)
    for name, content in files.items():
        if name != "provenance.json":
            assert (tmp_path / "b" / name).read_bytes() == content, name
    assert load_policy(str(tmp_path / "a")).model.num_parameters() == PROVENANCE["parameters"]
