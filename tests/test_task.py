import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import EnvironmentFault, UsageError
from agentrl.task import JsonlTasks, ListTasks, ProceduralTasks, Task


def addition(rng: np.random.Generator) -> Task:
    a, b = rng.integers(0, 1000, 2)
    return Task(f"{a} + {b}?", str(a + b))


def test_a_tasks_identity_is_its_content_not_its_id_or_meta():
    one, two = Task("q", "a", id="x"), Task("q", "a", meta={"level": 1})
    assert one.hash == two.hash == two.id
    assert one.id == "x"
    assert Task("q", "b").hash != one.hash


@given(st.text(), st.one_of(st.none(), st.text(), st.integers(), st.lists(st.integers())))
def test_a_hash_depends_on_nothing_but_prompt_and_answer(prompt, answer):
    assert Task(prompt, answer).hash == Task(prompt, answer).hash
    assert Task(prompt, answer).split in ("train", "test")


def test_a_reference_that_is_one_text_is_refused():
    with pytest.raises(UsageError, match="a tuple"):
        Task("2 + 3?", "5", reference="Answer: 5")


def test_procedural_splits_share_no_content():
    train = ProceduralTasks(addition, 300, 0, split="train")
    test = ProceduralTasks(addition, 300, 0, split="test")
    assert not {t.hash for t in train} & {t.hash for t in test}
    assert {t.split for t in test} == {"test"}


def test_a_procedural_task_is_the_same_whatever_was_asked_before():
    source = ProceduralTasks(addition, 100, 7)
    late = source[63]
    assert [source[i] for i in (5, 63)][1] == late
    assert ProceduralTasks(addition, 100, 7)[63] == late
    assert ProceduralTasks(addition, 100, 8)[63] != late


def test_a_generator_with_too_few_tasks_says_so_instead_of_hanging():
    only = Task("only one", "1")
    other = "train" if only.split == "test" else "test"
    assert ProceduralTasks(lambda rng: only, 10, 0, split=only.split)[0] == only
    with pytest.raises(EnvironmentFault, match="too few different tasks"):
        ProceduralTasks(lambda rng: only, 10, 0, split=other)[0]


def test_positions_outside_are_index_errors():
    with pytest.raises(IndexError):
        ProceduralTasks(addition, 3, 0)[3]
    with pytest.raises(IndexError):
        ListTasks([Task("q")])[1]


def test_lines_of_a_file_become_tasks(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"prompt": "1+1?", "answer": "2", "meta": {"d": 1}}\n\n{"prompt": "hi"}\n')
    tasks = JsonlTasks(path)
    assert [(t.prompt, t.answer) for t in tasks] == [("1+1?", "2"), ("hi", None)]


@pytest.mark.parametrize("line", ["{", "[1]", '{"answer": 1}', '{"prompt": "q", "colour": 1}'])
def test_a_bad_line_is_named_by_its_number(tmp_path, line):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"prompt": "fine"}\n' + line + "\n")
    with pytest.raises(UsageError, match=r"tasks\.jsonl:2: not a task"):
        JsonlTasks(path)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        JsonlTasks(tmp_path / "none.jsonl")


@pytest.mark.parametrize("prompt", [5, None, [], ["hi"], {"role": "user", "content": "hi"}])
def test_a_prompt_that_is_neither_text_nor_messages_is_refused(prompt):
    with pytest.raises(UsageError, match="its prompt is"):
        Task(prompt)


def test_a_message_without_text_is_refused():
    with pytest.raises(UsageError, match="both text"):
        Task([{"role": "user", "content": 5}])


@pytest.mark.parametrize("answer", [object(), {1: 2, "a": 3}, "\ud800"])
def test_content_without_a_lasting_identity_is_refused(answer):
    with pytest.raises(UsageError, match="no canonical JSON"):
        Task("q", answer)


def test_the_order_of_a_set_does_not_change_a_tasks_identity():
    words = [f"w{i}" for i in range(40)]
    assert Task("q", set(words)).hash == Task("q", sorted(words)).hash
    assert Task("q", np.int64(5)).hash == Task("q", 5).hash


def test_characters_that_look_like_line_ends_stay_inside_a_json_line(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"prompt": "a\u2028b\x85c"}\r\n{"prompt": "d"}\n', encoding="utf-8")
    assert [t.prompt for t in JsonlTasks(path)] == ["a\u2028b\x85c", "d"]


def test_a_file_of_tasks_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "tasks.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        JsonlTasks(tmp_path / "tasks.jsonl")


def test_a_wrong_prompt_in_a_file_is_told_with_its_line(tmp_path):
    (tmp_path / "tasks.jsonl").write_text('{"prompt": 5}\n')
    with pytest.raises(UsageError, match="jsonl:1: not a task"):
        JsonlTasks(tmp_path / "tasks.jsonl")
