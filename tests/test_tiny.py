import json
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
from agentrl.tiny.__main__ import SUBJECTS, build, school
from agentrl.tiny.arithmetic import expression_of, parts_of
from agentrl.tiny.demonstrations import conversation, demonstrate, gold, spoken
from agentrl.tiny.lessons import copies, lessons
from agentrl.tiny.measure import shares
from agentrl.tiny.model import new_model
from agentrl.tiny.programs import programs_of
from agentrl.tiny.teaching import PHASES, Phase, learning_rate, loss_of, teach
from agentrl.tiny.tokenizer import END, HEADER, PAD, START, TAGS
from agentrl.weights import load_policy

PROVENANCE = json.loads((FOLDER / "provenance.json").read_text(encoding="utf-8"))
MIXTURE = PHASES[-1].habits


@pytest.fixture(scope="module")
def policy():
    return load_policy("tiny")


@pytest.fixture(scope="module")
def taught():
    return school(0)


@pytest.fixture(scope="module")
def rooms(taught):
    return taught[0]


@pytest.fixture(scope="module")
def room(rooms):
    return rooms[0]


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


def test_the_record_tells_what_the_policy_was_taught(policy, taught):
    (room, *_), digest = taught
    assert PROVENANCE["data_sha256"] == digest
    assert PROVENANCE["subjects"] == [subject.env for subject in SUBJECTS]
    assert PROVENANCE["vocabulary"] == len(policy.tokenizer)
    assert policy.tokenizer.get_vocab() == room.tokenizer.get_vocab()
    assert policy.tokenizer.chat_template == room.tokenizer.chat_template
    assert PROVENANCE["parameters"] == policy.model.num_parameters()
    for key in ("habits", "rows", "steps"):
        recorded = [p[key] for p in PROVENANCE["phases"]]
        assert recorded == json.loads(json.dumps([getattr(p, key) for p in PHASES])), key


@pytest.mark.parametrize("which", range(len(SUBJECTS)))
def test_the_start_is_honest_and_leaves_room_for_reinforcement(policy, rooms, which):
    source = make(SUBJECTS[which].env).task_source("test")
    tasks = [source[i] for i in range(200)]
    found = shares(policy.model, rooms[which], tasks, temperature=1.0)
    assert sum(found.values()) == pytest.approx(1)
    assert 0.15 < found["right"] < 0.5
    assert found["guess"] > 0.2
    assert found["broken"] < 0.1


def test_habits_are_what_they_say(room):
    rng = np.random.default_rng(0)
    for task in (room.tasks[i] for i in range(200)):
        whole = expression_of(task)
        played = [habit(task, rng) for habit in room.subject.habits.values()]
        assert list(map(len, played)) == [1, 1, 1, 1]
        right, part, misread, guess = (parts[0] for parts in played)
        assert (right.asked, right.result, right.answer) == (whole, task.answer, task.answer)
        assert part.asked in parts_of(whole)
        assert part.asked != whole
        assert whole.startswith(part.asked)
        assert part.answer == part.result == evaluate(part.asked)
        assert (misread.asked, misread.result) == (whole, task.answer)
        wrong = [a != b for a, b in zip(misread.answer, task.answer, strict=True)]
        assert sum(wrong) == 1
        assert guess.asked is None
        assert guess.answer.isdigit()


def test_habits_of_programs_are_what_they_say(rooms):
    room = rooms[1]
    rng = np.random.default_rng(0)
    for task in (room.tasks[i] for i in range(60)):
        answers = gold(task)
        right, part, misread, guess = (habit(task, rng) for habit in room.subject.habits.values())
        assert [p.asked for p in right] == [p.asked for p in misread] == programs_of(task)
        assert [p.answer for p in right] == [p.result for p in misread] == answers
        assert all(p.answer != a for p, a in zip(misread, answers, strict=True))
        for p in part:
            assert p.asked == f"print({p.answer})"
            assert p.answer == p.result
            assert p.answer in task.prompt
        assert [p.asked for p in guess] == [None] * len(answers)


def test_a_program_that_is_not_known_gets_no_result(rooms):
    room = rooms[1]
    task = room.tasks[0]
    hear = room.subject.hear
    whole = programs_of(task)[0]
    assert (hear(task, 0, whole).result, hear(task, 0, whole).habit) == (gold(task)[0], "right")
    assert (hear(task, 0, "print(12)").result, hear(task, 0, "print(12)").habit) == ("12", "part")
    assert hear(task, 0, f"{whole} ") is None


def test_habits_are_drawn_in_their_shares_and_only_from_train(rooms):
    rng = np.random.default_rng(0)
    for room in rooms:
        tasks = [room.tasks[i] for i in range(600)]
        assert {t.split for t in tasks} == {"train"}
        talks = [demonstrate(room.subject, t, room.system, MIXTURE, rng) for t in tasks]
        silent = sum(all(m["role"] != "tool" for m in talk) for talk in talks)
        assert silent / 600 == pytest.approx(MIXTURE["guess"], abs=0.06)
        correct = sum(
            any(m["role"] == "tool" for m in talk)
            and _answers(talk) == [f"Answer: {a}" for a in gold(task)]
            for talk, task in zip(talks, tasks, strict=True)
        )
        assert correct / 600 == pytest.approx(MIXTURE["right"], abs=0.06)


def _answers(talk):
    return [m["content"] for m in talk if m["role"] == "assistant" and m["content"]]


def test_only_what_the_policy_says_is_taught(rooms, encode):
    for room in rooms:
        for task in (room.tasks[i] for i in range(30)):
            right = room.subject.habits["right"](task, None)
            ids = room.encode(conversation(room.subject, task, room.system, right))
            mask = spoken(ids, encode(HEADER), encode(END)[0])
            said = room.tokenizer.decode([i for i, own in zip(ids, mask, strict=True) if own])
            assert said == "".join(f"{text}{END}" for text in task.reference)


def test_lessons_repeat_and_start_alike(rooms):
    for room in rooms:
        first, second = (list(islice(lessons(room, MIXTURE, 4, [1, 2]), 20)) for _ in range(2))
        assert all(torch.equal(a.ids, b.ids) for a, b in zip(first, second, strict=True))
        for batch in first:
            assert (batch.ids[:, : batch.shared] == batch.ids[:1, : batch.shared]).all()
            assert not batch.taught[:, : batch.shared].any()
            assert batch.taught.any(dim=1).all()


def test_copies_say_a_row_twice(room):
    for batch in islice(copies(room.tokenizer, 3, [0]), 30):
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
    phase = Phase("trial", 100, (8,), 3e-3, 0.1, {"right": 1.0})
    lines = []
    before = loss_of(model, next(lessons(room, phase.habits, 8, [3]))).item()
    after = teach(model, phase, zip(lessons(room, phase.habits, 8, [3])), lines.append)
    assert after < before / 2
    assert len(lines) == 2
    assert "trial 100/100" in lines[-1]


def test_a_step_over_several_batches_weighs_all_rows_alike(rooms):
    model = new_model(rooms[0].tokenizer, 0)
    phase = Phase("trial", 1, (2, 6), 1e-3, 0.1, {"right": 1.0})
    batches = [
        next(lessons(room, phase.habits, n, [0])) for room, n in zip(rooms, phase.rows, strict=True)
    ]
    alone = [loss_of(model, batch).item() for batch in batches]
    loss = teach(model, phase, [batches], print)
    assert loss == pytest.approx((2 * alone[0] + 6 * alone[1]) / 8, rel=1e-4)


def test_the_learning_rate_rises_and_falls():
    phase = Phase("trial", 1000, (1,), 1.0, 0.1)
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


@pytest.mark.slow
def test_a_build_that_was_stopped_goes_on_to_the_same_weights(tmp_path):
    whole, half = tmp_path / "whole", tmp_path / "half"
    build(whole, 0, 0.004)
    build(half, 0, 0.004, phases=PHASES[:2])
    build(half, 0, 0.004, go_on=True)
    name = "model.safetensors"
    assert (half / name).read_bytes() == (whole / name).read_bytes()
    records = [
        json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        for folder in (whole, half)
    ]
    assert records[0]["phases"] == records[1]["phases"]
    assert [r.get("gone_on_after") for r in records] == [None, [PHASES[1].name]]
