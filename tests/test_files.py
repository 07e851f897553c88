"""Files of an episode: what a policy may do with them, and what its code finds of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.env import ToolEnv
from agentrl.errors import SandboxUnavailable, ToolError, UsageError
from agentrl.message import AssistantTurn, ToolCall
from agentrl.task import Task
from agentrl_tools._folder import MAX_DEPTH, MAX_PATH, Folder
from agentrl_tools.files import MAX_LISTED, PAGE, Files
from agentrl_tools.python import Python
from tests.boxes import box as sandbox_of
from tests.tool_manners import call, calls, check_manners, started

BAD_PATHS = [
    *("", ".", "..", "/etc/passwd", "../a", "a/../b", "a/./b", "a//b", "a/", "/a", "./a", "~/a"),
    *(".hidden", "a/.git/b", "a b", "a\\b", "a\n", "a\0b", "C:a", "é", "\u0430", "\uff41"),
    *("a\u202eb", "\ud800", "x" * (MAX_PATH + 1), "/".join("a" * (MAX_DEPTH + 1)), "con$", "a:b"),
    *("-/../b", "%2e%2e/a"),
]


@pytest.fixture
def box():
    with started(Files()) as made:
        yield made


def say(box, name, *arguments):
    names = list(box.tools()[name].parameters["properties"])
    return call(box, name, **dict(zip(names, arguments, strict=False))).content


def test_what_is_written_is_read_listed_changed_and_deleted(box):
    assert say(box, "list_files") == "There are no files yet."
    assert say(box, "write_file", "a/b.txt", "one\ntwo é") == "a/b.txt now has 9 characters."
    assert say(box, "append_file", "a/b.txt", "!") == "a/b.txt now has 10 characters."
    assert say(box, "append_file", "new", "x") == "new now has 1 character."
    assert say(box, "edit_file", "a/b.txt", "one", "1") == "a/b.txt now has 8 characters."
    assert say(box, "list_files") == "a/b.txt (9 bytes)\nnew (1 byte)"
    assert say(box, "read_file", "a/b.txt") == (
        "[a/b.txt, characters 0 to 8 of 8. This is its end.]\n1\ntwo é!"
    )
    assert say(box, "delete_file", "new") == "new is deleted."
    assert box.contents() == {"a/b.txt": "1\ntwo é!".encode()}
    assert (box.text("a/b.txt"), box.text("new")) == ("1\ntwo é!", None)


def test_calls_of_one_turn_are_done_in_the_order_they_were_written(box):
    wanted = [
        ToolCall("write_file", {"path": "a", "content": "1"}),
        ToolCall("read_file", {"path": "a"}),
        *(ToolCall("append_file", {"path": "a", "content": str(i)}) for i in range(2, 6)),
        ToolCall("read_file", {"path": "a"}),
    ]
    said = [outcome.content.partition("\n")[2] for outcome in calls(box, *wanted)]
    assert (said[1], said[-1]) == ("1", "12345")


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_could_lead_elsewhere_is_refused_in_words(box, path):
    before = sorted(os.listdir("."))
    for name in ("write_file", "append_file"):
        said = say(box, name, path, "x")
        assert said.startswith(f"{name}: ")
        assert "can't be a path" in said
        assert len(said) < 500
    for name in ("read_file", "delete_file"):
        assert "there is no file" in say(box, name, path)
    assert box.contents() == {}
    assert sorted(os.listdir(".")) == before


@given(path=st.text(max_size=30), other=st.sampled_from(["a", "a/b", "a/b/c", "b"]))
def test_what_is_taken_can_be_laid_out_beneath_a_folder(path, other):
    folder = Folder(100, 10)
    for one in (other, path, f"{other}/{path}"):
        try:
            folder.write(one, b"")
        except ToolError:
            continue
        assert os.path.normpath(one) == one
        assert Path("/root", one).is_relative_to("/root")
        assert ".." not in one.split("/")
    taken = list(folder.contents())
    assert not [(a, b) for a in taken for b in taken if b.startswith(f"{a}/")]


def test_a_file_is_no_folder_and_a_folder_no_file(box):
    say(box, "write_file", "a/b", "x")
    assert "a/b is a file" in say(box, "write_file", "a/b/c", "x")
    assert "is a folder already" in say(box, "write_file", "a", "x")
    assert list(box.contents()) == ["a/b"]


def test_a_full_folder_takes_no_more_and_loses_nothing():
    with started(Files(megabytes=0.00001, max_files=2)) as box:
        say(box, "write_file", "a", "12345")
        assert "would have 11 bytes together, and 10 fit" in say(box, "append_file", "a", "123456")
        say(box, "write_file", "b", "12345")
        assert "at most 2 files fit" in say(box, "write_file", "c", "")
        assert box.contents() == {"a": b"12345", "b": b"12345"}
        say(box, "write_file", "a", "67890")
        assert box.text("a") == "67890"


def test_output_is_bounded_and_says_how_to_go_on():
    with started(Files(max_files=500)) as box:
        for number in range(MAX_LISTED + 7):
            box.folder.write(f"f{number:03}", b"")
        assert say(box, "list_files").endswith("f099 (0 bytes)\n[and 7 more]")
        text = "".join(f"{n:05} " for n in range(3000))
        box.folder.write("long", text.encode())
        first = say(box, "read_file", "long")
        assert first.startswith(
            f"[long, characters 0 to {PAGE} of 18000. Go on with start={PAGE}.]"
        )
        read = "".join(
            say(box, "read_file", "long", n).partition("\n")[2] for n in (0, 6000, 12000)
        )
        assert read == text
        assert "has 18000 characters" in say(box, "read_file", "long", 18000)


def test_what_is_no_text_is_told_by_its_size(box):
    for content in (b"a\0b", b"\xff\xfe"):
        box.folder.write("raw", content)
        said = say(box, "read_file", "raw")
        assert said == f"read_file: raw is no text: {len(content)} bytes of another kind."
        assert "is no text" in say(box, "append_file", "raw", "x")
        assert box.text("raw") is None
    assert "half a surrogate pair at character 1" in say(box, "write_file", "b", "a\ud800")


def test_a_piece_is_replaced_only_where_it_is_plain_which(box):
    say(box, "write_file", "a", "x x y")
    assert "is in a 2 times" in say(box, "edit_file", "a", "x", "z")
    assert "is in a 0 times" in say(box, "edit_file", "a", "q", "z")
    assert "old is empty" in say(box, "edit_file", "a", "", "z")
    assert "Did you mean a?" not in say(box, "edit_file", "bcd", "x", "z")
    assert box.text("a") == "x x y"


def test_every_episode_begins_with_the_files_of_its_task():
    def setup(task):
        return {"in/numbers.csv": task.prompt, "raw": b"\0"}

    with started(Files(setup=setup), Task("1,2")) as box:
        say(box, "write_file", "in/numbers.csv", "changed")
        say(box, "write_file", "more", "")
        box.start(Task("3,4"))
        assert box.contents() == {"in/numbers.csv": b"3,4", "raw": b"\0"}
    for bad in ({"../a": "x"}, {"a": "x" * 2_000_000}, {"a": "", "a/b": ""}, {"a": "\ud800"}):
        with pytest.raises(UsageError, match=r"files: the setup of a task can't be laid out\. "):
            Files(setup=lambda task, bad=bad: bad).start(Task("x"))


def test_files_end_with_their_episode(box):
    say(box, "write_file", "a", "x")
    box.release()
    with pytest.raises(UsageError, match="no episode has begun"):
        box.contents()


def test_a_folder_without_room_is_refused():
    for options in ({"megabytes": 0}, {"megabytes": 100}, {"max_files": 0}, {"max_files": 10**9},
                    {"megabytes": float("nan")}):  # fmt: skip
        with pytest.raises(UsageError, match="files: "):
            Files(**options)


def test_nonsense_is_answered(box):
    check_manners(box)


# With Python


@pytest.fixture(scope="module")
def sandbox():
    with sandbox_of(level=3) as made:
        yield made


@pytest.fixture
def both(sandbox):
    files = Files()
    with started(files), started(Python(files=files, sandbox=sandbox)) as python:
        yield files, lambda code: say(python, "python", code)


def test_code_and_tools_see_the_same_files(both):
    files, run = both
    say(files, "write_file", "a/in.txt", "7 é")
    assert run("open('a/in.txt').read()") == "'7 é'"
    assert run("with open('out.txt', 'w') as f: n = f.write('1\\n')") == "(nothing was printed)"
    assert say(files, "read_file", "out.txt").endswith("]\n1\n")
    assert run("import os; os.unlink('a/in.txt'); sorted(os.listdir('.')), n") == (
        "(['a', 'out.txt'], 2)"
    )
    assert list(files.contents()) == ["out.txt"]
    say(files, "write_file", "a", "a folder for the code, a file now")
    say(files, "delete_file", "out.txt")
    assert run("sorted(os.listdir('.'))") == "['a']"


def test_bytes_of_any_kind_and_size_come_back_as_they_were(both):
    files, run = both
    data = os.urandom(400_000)
    files.folder.write("in", data)
    files.folder.write("empty", b"")
    assert run("import shutil; shutil.copy('in', 'out')") == "'out'"
    assert files.contents() == {"empty": b"", "in": data, "out": data}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "import os; os._exit(3)",
            "variables of earlier code are gone; the files are as they were",
        ),
        ("print('x' * 100_000_000)", "printed more than 8 MiB"),
        ("for i in range(200): open(f'f{i}', 'w').close()", "more than the 1000000 bytes or 100"),
        ("open('big', 'w').write('x' * 2_000_000)", "more than the 1000000 bytes or 100 files"),
        ("import builtins; builtins.open = None", "the files could not be read"),
        ("import os; os.walk = lambda *a: 1 / 0", "the files could not be read"),
        ("import os; os.walk = lambda *a: print('x' * 5_000_000) or []", "could not be read"),
    ],
)
def test_files_outlive_whatever_code_does(both, code, words):
    files, run = both
    say(files, "write_file", "kept", "safe")
    assert words in run(code)
    assert files.contents() == {"kept": b"safe"}
    assert "'safe'" in run("import os; assert os.listdir('.') == ['kept']; open('kept').read()")


@pytest.mark.parametrize(
    "shown",
    [
        "../up e30=",
        "a e30=\\na/b e30=",
        ".hid e30=",
        "/etc/x e30=",
        "a !!",
        "a",
        "x" * 50,
        "é e30=",
    ],
)
def test_what_code_says_of_files_is_checked(both, shown):
    files, run = both
    say(files, "write_file", "kept", "safe")
    lie = f"{shown}\\nend {1 + shown.count(chr(92) + 'n')} 0\\n"
    for after in ("os._exit(0)", "1 / 0", "[]"):
        code = f"import os; os.walk = lambda *a: os.write(1, '{lie}'.encode()) and {after}"
        assert "the files are as they were before this code" in run(code)
    code = (
        "import os; real = os.write\n"
        f"os.write = lambda f, d: real(f, d if d[:3] != b'end' else '{lie}'.encode()) and len(d)\n"
        "os.walk = lambda *a: []"
    )
    assert "the files are as they were before this code" in run(code)
    assert files.contents() == {"kept": b"safe"}


def test_names_that_are_not_kept_are_told(both):
    files, run = both
    said = run("for name in ('good', 'two words', 'é', '.hidden'): open(name, 'w').close()")
    assert said == "[2 of what it left are no plain files with plain names, and not kept]"
    assert list(files.contents()) == ["good"]


def test_a_session_that_ended_between_two_calls_finds_its_files(both):
    files, run = both
    say(files, "write_file", "a", "x")
    run("import threading, os\nt = threading.Timer(0, lambda: os._exit(0))")
    run("y = 1")
    run("import time\nthreading.Thread(target=lambda: (time.sleep(0.2), os._exit(0))).start()")
    said = run("import time; time.sleep(1)")
    while "gone" not in said:
        said = run("import time; time.sleep(1)")
    assert run("open('a').read()").startswith("'x'")


def test_files_are_shared_with_code_at_the_strictest_level_alone():
    with sandbox_of(level=2) as sandbox:
        files = Files()
        files.start(Task("x"))
        with pytest.raises(SandboxUnavailable, match=r"level 3.*held at level 2.*Leave files="):
            Python(files=files, sandbox=sandbox).start(Task("x"))
        assert say(files, "write_file", "a", "x") == "a now has 1 character."
    with pytest.raises(UsageError, match="shared with a session"):
        Python(files=Files(), session=False)


def test_a_reward_reads_what_an_episode_left(sandbox):
    class Desk(ToolEnv):
        """Write the answer to a file."""

        def __init__(self):
            self.files = Files()

        def toolboxes(self):
            return [self.files, Python(files=self.files, sandbox=sandbox)]

        def reward(self, task, trajectory):
            return float(self.files.text("answer.txt") == task.answer)

    env = Desk()
    env.reset(options={"task": Task("6*7?", "42")})
    env.step(AssistantTurn("", (ToolCall("python", {"code": "n = 6 * 7"}),)))
    code = "with open('answer.txt', 'w') as f: f.write(str(n))"
    env.step(AssistantTurn("", (ToolCall("python", {"code": code}),)))
    assert env.step("Done.")[1] == 1.0
    env.close()
