"""Word problems of templates, files and data sets; each gold answer can be graded."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl.exact import parse_number
from agentrl.registry import make, resolve
from agentrl.task import Task
from agentrl_environments._gsm_rows import Columns, Row, split_tasks, tasks_of
from agentrl_environments._gsm_solution import Step, gold_of, lines, steps, worked_out
from agentrl_environments._gsm_symbolic import is_sound, symbolic_task
from agentrl_environments.gsm import LEVELS, is_finished

SOLUTION = "She sold 48/2 = <<48/2=24>>24 clips in May.\nTogether 48+24 = <<48+24=72>>72.\n#### 72"


def play(env, task, *turns):
    env.reset(seed=0, options={"task": task})
    for turn in turns:
        *_, info = env.step(turn)
    env.close()
    return info


def written(path, *rows):
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return str(path)


def many(count):
    return [
        {"question": f"What is {i} + 1?", "answer": f"{i}+1 = {i + 1}\n#### {i + 1}"}
        for i in range(count)
    ]


# Solutions.


def test_marked_equations_are_the_steps():
    assert steps(SOLUTION) == [Step("48/2", "24", True), Step("48+24", "72", True)]
    assert (gold_of(SOLUTION), lines(SOLUTION)) == ("72", 2)


@pytest.mark.parametrize(
    ("text", "expression", "value"),
    [
        ("so 35 \N{MULTIPLICATION SIGN} 3 = 105 kiwi", "35*3", "105"),
        ("53 x €13 = €689 for cakes", "53*13", "689"),
        ("3 batches * 12 minutes/batch = 36 minutes", "3*12", "36"),
        ("of 125 students - 64 girls = 61 boys.", "125-64", "61"),
        ("$1,200 / 2 people = $600.", "1200/2", "600"),
        ("50% * 50% = 25%", "50%*50%", "25%"),
        ("2.0*(3+4) = 14", "2.0*(3+4)", "14"),
        ("10 / 3 = 3.33 each", "10/3", "3.33"),
        ("15/60 = 1/4 miles", "15/60", "1/4"),
    ],
)
def test_equations_in_prose_are_read(text, expression, value):
    assert steps(text) == [Step(expression, value, True)]


@pytest.mark.parametrize("text", ["564.3 / 1.35 = 417", "0.63*40 = 25", "10 / 3 = 3", "1/3*1 = .3"])
def test_an_equation_that_is_wrong_is_called_so_or_is_none(text):
    assert not any(step.right for step in steps(text))


@pytest.mark.parametrize(
    "text", ["", "= 5", "x = 42", "2x + 100 = 184", "1/0 = 5", "W = 3", "5 = 5"]
)
def test_what_is_no_arithmetic_is_no_step(text):
    assert steps(text) == []


@given(st.text(alphabet="0123456789+-*/x()=., %$<>#ab\n", max_size=200))
def test_any_text_has_steps_and_a_gold_answer(text):
    for step in steps(text):
        assert "=" not in step.expression
    assert gold_of(text) in text
    assert lines(text) <= text.count("=")


def test_the_answer_is_after_the_hashes_or_in_the_box_or_the_whole():
    assert gold_of("#### 41\nso\n#### 1,042 ") == "1,042"
    assert gold_of(r"Thus \boxed{\frac{1}{2}}.") == r"\frac{1}{2}"
    assert gold_of(" 42 ") == "42"


def test_a_reference_calculates_what_the_solution_does():
    task = worked_out("?", "72", SOLUTION)
    calls = [
        json.loads(t.removeprefix("<tool_call>").removesuffix("</tool_call>"))
        for t in task.reference[:-1]
    ]
    assert [call["arguments"] for call in calls] == [
        {"expression": "48/2"},
        {"expression": "48+24"},
    ]
    assert task.reference[-1] == "Answer: 72"
    assert task.meta == {"difficulty": "easy", "steps": 2}
    assert worked_out("?", "72", "72").reference == ("Answer: 72",)
    assert worked_out("?", "72", "72").meta == {}


# Templates.


def test_every_reference_of_a_template_earns_one():
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    env = make("gsm")
    for split in ("train", "test"):
        source = env.task_source(split)
        for task in (source[i] for i in range(30)):
            info = play(env, task, *task.reference)
            assert (info["stop"], info["correct"]) == ("answer", True), task
            assert task.split == split


@pytest.mark.slow
def test_every_reference_of_the_test_split_earns_one():
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    env = make("gsm")
    source = env.task_source("test")
    for task in (source[i] for i in range(len(source))):
        assert play(env, task, *task.reference)["correct"] is True, task


def test_difficulty_chooses_problems_by_the_length_of_their_solution():
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    lengths = {}
    for level in LEVELS:
        source = make("gsm", difficulty=level).task_source("train")
        lengths[level] = {source[i].meta["steps"] for i in range(30)}
    assert max(lengths["easy"]) < min(lengths["medium"])
    assert max(lengths["medium"]) < min(lengths["hard"])
    with pytest.raises(UsageError, match="Did you mean hard"):
        make("gsm", difficulty="hrad")


def test_template_problems_are_many_and_the_same_at_the_same_position():
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    train, test = (resolve("gsm").tasks(split) for split in ("train", "test"))
    ours, theirs = ({side[i].hash for i in range(200)} for side in (train, test))
    assert not ours & theirs
    assert len(ours) > 190
    assert train[7] == resolve("gsm").tasks("train")[7]
    assert symbolic_task(np.random.default_rng(3)) == symbolic_task(np.random.default_rng(3))
    assert all(parse_number(train[i].answer) >= 0 for i in range(200))


def test_a_problem_whose_solution_does_not_add_up_is_passed_over():
    assert is_sound("72", SOLUTION)
    assert not is_sound("417", "564.3 / 1.35 = 417\n#### 417")
    assert not is_sound("-3", "#### -3")
    assert not is_sound("three", "#### three")


# Files.


def test_a_file_is_split_by_content_and_each_content_is_there_once(tmp_path):
    file = written(tmp_path / "rows.jsonl", *many(200), *many(20))
    env = make("gsm", file=file)
    train, test = (list(env.task_source(split)._tasks) for split in ("train", "test"))
    assert len(train) + len(test) == 200
    assert min(len(train), len(test)) > 5
    assert not {t.hash for t in train} & {t.hash for t in test}
    assert play(env, test[0], *test[0].reference)["correct"]
    assert make("gsm", file=file).task_source("test")._tasks[0] is test[0]


def test_columns_are_named_by_option(tmp_path):
    rows = [{"problem": f"{i}?", "solution": rf"So \boxed{{{i}}}."} for i in range(30)]
    env = make(
        "gsm", file=written(tmp_path / "r.jsonl", *rows), question="problem", answer="solution"
    )
    assert {t.answer for s in ("train", "test") for t in env.task_source(s)._tasks} == {
        str(i) for i in range(30)
    }


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question": "?", "answer": "nan"}, "gold answer 'nan' can't be graded"),
        ({"question": "?", "answer": "####"}, "gold answer '' can't be graded"),
        (
            {"question": "?", "answer": "She has two apples and gives one of them away."},
            "gold answer 'She has two apples.*prose of 10 words",
        ),
        ({"question": "?"}, "no column 'answer'. It has question"),
        ({"question": " ", "answer": 3}, "its question is ' '"),
        ({"question": "?", "answer": True}, "its answer is True"),
        ({"question": "?", "answer": None}, "its answer is None"),
        ([1], "a list. Write a JSON object"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_by_its_line(tmp_path, row, said):
    file = written(tmp_path / "rows.jsonl", {"question": "1+1?", "answer": 2}, row)
    with pytest.raises(UsageError, match=rf"rows\.jsonl:2: .*{said}"):
        make("gsm", file=file).task_source("train")


def test_a_file_that_is_none_of_those_is_refused(tmp_path):
    (tmp_path / "broken.jsonl").write_text('{"question": 1,\n')
    with pytest.raises(UsageError, match=r"broken\.jsonl:1: JSONDecodeError"):
        make("gsm", file=str(tmp_path / "broken.jsonl")).task_source("train")
    with pytest.raises(UsageError, match=r"none\.jsonl: FileNotFoundError"):
        make("gsm", file=str(tmp_path / "none.jsonl")).task_source("train")
    with pytest.raises(UsageError, match=r"neither \.jsonl nor \.parquet"):
        make("gsm", file=str(tmp_path / "rows.csv")).task_source("train")


def test_a_parquet_file_is_read_row_by_row(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    parquet.write_table(pyarrow.Table.from_pylist(many(50)), tmp_path / "rows.parquet")
    env = make("gsm", file=str(tmp_path / "rows.parquet"))
    assert sum(len(env.task_source(split)) for split in ("train", "test")) == 50
    bad = [*many(3), {"question": "?", "answer": "nan"}]
    parquet.write_table(pyarrow.Table.from_pylist(bad), tmp_path / "bad.parquet")
    with pytest.raises(UsageError, match=r"bad\.parquet row 3: gold answer 'nan'"):
        make("gsm", file=str(tmp_path / "bad.parquet")).task_source("train")


def test_bare_answers_have_no_difficulty(tmp_path):
    file = written(tmp_path / "r.jsonl", *({"question": f"{i}?", "answer": i} for i in range(40)))
    assert len(make("gsm", file=file).task_source("train")) > 20
    with pytest.raises(UsageError, match="can't be told from bare answers"):
        make("gsm", file=file, difficulty="hard").task_source("train")


# Data sets.


def library(**splits):
    """The package datasets, as far as it is used."""

    def load_dataset(name, subset, split):
        if name != "there":
            raise FileNotFoundError(f"no {name}")
        return splits[split]

    return SimpleNamespace(
        load_dataset=load_dataset, get_dataset_split_names=lambda name, subset: list(splits)
    )


def test_a_data_sets_own_splits_are_kept_and_what_is_in_both_is_only_tested_with():
    rows = many(30)
    both = library(train=rows[:25], test=rows[20:])
    train, test = (split_tasks(both, "there", "", s, Columns()) for s in ("train", "test"))
    assert (len(train), len(test)) == (20, 10)
    assert not {t.hash for t in train} & {t.hash for t in test}


def test_a_data_set_of_one_split_is_divided_by_content():
    one = library(train=many(200))
    train, test = (split_tasks(one, "there", "", s, Columns()) for s in ("train", "test"))
    assert len(train) + len(test) == 200
    assert len(test) > 5
    assert {t.split for t in test} == {"test"}


def test_a_bad_row_of_a_data_set_is_named():
    bad = library(train=many(2), test=[*many(2), {"question": "?", "answer": "#### nan"}])
    with pytest.raises(UsageError, match=r"hf:there test\[2\]: gold answer 'nan'"):
        split_tasks(bad, "there", "", "train", Columns())


def test_a_data_set_that_cannot_be_loaded_is_the_users_to_mend():
    with pytest.raises(UsageError, match="hf:elsewhere: FileNotFoundError: no elsewhere"):
        split_tasks(library(train=[], test=[]), "elsewhere", "", "train", Columns())


def test_a_data_set_in_a_folder_is_loaded_by_the_real_package(tmp_path):
    pytest.importorskip("datasets", reason="datasets is not installed")
    for split, rows in {"train": many(30)[:20], "test": many(30)[20:]}.items():
        written(tmp_path / f"{split}.jsonl", *rows)
    env = make("gsm", source=f"hf:{tmp_path}")
    assert [len(env.task_source(split)) for split in ("train", "test")] == [20, 10]


def test_sources_that_mean_nothing_are_refused():
    for source in ("gsm8k", "hf:", ""):
        with pytest.raises(UsageError, match=r"is unknown\. Give symbolic or hf:NAME"):
            make("gsm", source=source)
    with pytest.raises(UsageError, match="both file and source"):
        make("gsm", source="hf:x", file="y.jsonl")


# Reward.


def test_only_the_answer_itself_earns_one():
    env, task = make("gsm"), Task("What is 6 times 7?", "42")
    for text in ("Answer: 42", "Answer: 42.0", "It is 42.", "Answer: $42", r"\boxed{42}"):
        assert play(env, task, text)["correct"] is True, text
    for text in ("Answer: 6*7", "Answer: 84/2", "Answer: 41", "", "Answer: 42 or 43", "no idea"):
        assert play(env, task, text)["correct"] is False, text


@pytest.mark.parametrize(
    "answer", ["6*7", "84/2", "6 7", "2^5", "sqrt(1764)", r"\frac{42}{1}", "4!"]
)
def test_unfinished_arithmetic_is_no_answer_to_a_number(answer):
    assert not is_finished("42", answer)
    assert is_finished(r"\frac{1}{2}", answer)


@pytest.mark.parametrize(
    "answer", ["42", "42.0", "1,042", "$42", "42 apples", "x = 42", "-42", "42%"]
)
def test_one_number_is_a_finished_answer(answer):
    assert is_finished("42", answer)


def test_rows_are_tasks_in_their_order():
    rows = [Row(f"r{i}", row) for i, row in enumerate(many(3))]
    assert [task.answer for task in tasks_of(rows, Columns())] == ["1", "2", "3"]
