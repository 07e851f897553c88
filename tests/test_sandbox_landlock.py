import json
import os
import subprocess
import sys

import pytest

from agentrl.sandbox import kernel, landlock
from agentrl.sandbox.namespaces import Layout, layout, resolve, within


def try_in(rights, *tries):
    """Which of these work in a process under a ruleset."""
    script = (
        "import sys, json, os, ctypes\nfrom agentrl.sandbox import kernel, landlock\n"
        "rights, tries = json.load(sys.stdin)\n"
        "kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)\n"
        "landlock.restrict(landlock.ruleset([tuple(one) for one in rights]))\n"
        "def works(text):\n    try:\n        exec(text)\n        return True\n"
        "    except OSError:\n        return False\n"
        "os.write(1, json.dumps([works(text) for text in tries]).encode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps([rights, tries]),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def has_landlock():
    try:
        return sys.platform == "linux" and landlock.abi() > 0
    except OSError:
        return False


needs_landlock = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")


@pytest.fixture
def tree(tmp_path):
    for path in ("a/one", "a/b/two", "a/c/three", "d/four"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    return str(tmp_path)


@needs_landlock
def test_only_what_was_named_can_be_opened(tree):
    rights = [(f"{tree}/a", landlock.READ), (f"{tree}/d/four", landlock.READ)]
    assert try_in(
        rights,
        f"open('{tree}/a/b/two')",
        f"open('{tree}/d/four')",
        f"os.listdir('{tree}/a')",
        f"os.listdir('{tree}/d')",
        f"open('{tree}/a/one', 'a')",
        f"open('{tree}/a/new', 'w')",
        "open('/etc/passwd')",
    ) == [True, True, True, False, False, False, False]


@needs_landlock
def test_in_the_scratch_folder_files_are_made_and_nothing_stranger(tree):
    rights = [(f"{tree}/a", landlock.WORK)]
    assert try_in(
        rights,
        f"open('{tree}/a/new', 'w').write('x')",
        f"os.rename('{tree}/a/new', '{tree}/a/b/new')",
        f"os.mkdir('{tree}/a/e')",
        f"os.symlink('x', '{tree}/a/link')",
        f"os.mkfifo('{tree}/a/pipe')",
        f"os.rename('{tree}/a/one', '{tree}/d/one')",
    ) == [True, landlock.abi() >= 2, True, False, False, False]


@needs_landlock
def test_a_hidden_folder_is_left_out_of_one_that_is_shown(tree):
    rights = list(landlock.reading([f"{tree}/a"], [f"{tree}/d"], [f"{tree}/a/b"]))
    assert try_in(
        rights,
        f"open('{tree}/a/one')",
        f"open('{tree}/a/c/three')",
        f"open('{tree}/a/b/two')",
        f"os.listdir('{tree}/d')",
        f"open('{tree}/d/four')",
    ) == [True, True, False, True, False]


@needs_landlock
def test_a_path_that_is_gone_is_named(tree):
    with pytest.raises(OSError, match=f"landlock {tree}/gone: No such file"):
        landlock.ruleset([(f"{tree}/gone", landlock.READ)])


@pytest.mark.skipif(sys.platform != "linux", reason="calls of Linux")
def test_a_call_that_is_refused_names_itself():
    with pytest.raises(OSError, match="setns: ") as came:
        kernel.call("setns", -1, 0)
    assert came.value.errno == 9


def test_links_on_the_way_are_made_again_and_followed(tree):
    os.symlink("a", f"{tree}/to-a")
    os.symlink(f"{tree}/to-a/b/../c", f"{tree}/d/far")
    links: dict[str, str] = {}
    assert resolve(f"{tree}/d/far/three", links) == f"{os.path.realpath(tree)}/a/c/three"
    assert set(links.values()) >= {"a", f"{tree}/to-a/b/../c"}


def test_circles_of_links_end(tree):
    os.symlink("y", f"{tree}/x")
    os.symlink("x", f"{tree}/y")
    with pytest.raises(OSError, match="circles"):
        resolve(f"{tree}/x", {})


def test_what_lies_in_a_shown_folder_is_not_shown_twice_but_for_what_is_hidden_there(tree):
    real = os.path.realpath(tree)
    os.symlink("../a/one", f"{real}/d/link")
    plan = layout(
        [f"{real}/a", f"{real}/a/c", f"{real}/a/b/two", f"{real}/d/link"], [], [f"{real}/a/b"]
    )
    assert plan == Layout(
        (f"{real}/a", f"{real}/a/b/two"), (f"{real}/a/b",), ((f"{real}/d/link", "../a/one"),)
    )


def test_within_minds_the_innermost():
    binds, masks = ["/a", "/a/b/c"], ["/a/b"]
    shown = {
        path: within(path, binds, masks) for path in ("/a/x", "/a/b", "/a/b/x", "/a/b/c/x", "/ab")
    }
    assert shown == {"/a/x": True, "/a/b": False, "/a/b/x": False, "/a/b/c/x": True, "/ab": False}
