import sys
from textwrap import dedent

import pytest

from agentrl import registry
from agentrl.env import ToolEnv
from agentrl.errors import UsageError
from agentrl.registry import first_lines, make, names, register, resolve

SOURCE = '''
"""Made of paper."""
from agentrl.env import ToolEnv

class Paper(ToolEnv):
    """Paper, of some size."""
    def __init__(self, size="A4", folded=False):
        if size == "A99":
            raise ValueError("there is no A99")
        self.size = size
'''


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Two built-in environments, two from other people, none registered."""
    package = tmp_path / "some_envs"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "paper.py").write_text(SOURCE)
    (package / "glue.py").write_text('raise RuntimeError("imported without being asked for")')
    (package / "_shared.py").write_text("")
    other = tmp_path / "other_people"
    other.mkdir()
    (other / "__init__.py").write_text("")
    (other / "envs.py").write_text(
        SOURCE.replace("Paper", "Stone") + '\nclass Sand(Stone):\n    """Grains."""\n'
    )
    installed = tmp_path / "other_people-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: other-people\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[agentrl.environments]\nstone = other_people.envs:Stone\nsand = other_people.envs:Sand\n"
    )
    monkeypatch.setattr(registry, "BUILT_INS", "some_envs")
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in list(sys.modules):
        if name.startswith(("some_envs", "other_people", "_agentrl_file_")):
            del sys.modules[name]


def test_names_and_first_lines_are_read_without_importing(world):
    assert names() == ["glue", "paper", "sand", "stone"]
    assert first_lines() == {
        "glue": "",
        "paper": "Made of paper.",
        "sand": "Grains.",
        "stone": "Stone, of some size.",
    }
    assert not {m for m in sys.modules if m.startswith(("some_envs.", "other_people"))}


def test_a_name_a_module_and_a_file_lead_to_the_class(world):
    by_name = resolve("paper")
    assert by_name is resolve("some_envs.paper:Paper")
    by_file = resolve(f"{world}/some_envs/paper.py:Paper")
    assert by_file.__name__ == by_name.__name__
    assert by_file is resolve(f"{world}/some_envs/paper.py")
    assert resolve("stone").__name__ == "Stone"
    assert issubclass(resolve("sand"), ToolEnv)


def test_a_registered_name_lasts_and_cannot_be_given_away(world):
    register("mine", "other_people.envs:Sand")
    register("mine", "other_people.envs:Sand")
    assert resolve("mine").__name__ == "Sand"
    assert "mine" in names()
    with pytest.raises(UsageError, match=r"stands for other_people\.envs:Sand already"):
        register("mine", "other_people.envs:Stone")


@pytest.mark.parametrize(
    ("name", "target"), [("a:b", "m:C"), ("", "m:C"), ("a.py", "m:C"), ("a*2", "m:C"), ("a", "m")]
)
def test_a_name_or_target_that_could_never_be_found_is_refused(world, name, target):
    with pytest.raises(UsageError, match="register"):
        register(name, target)


def test_a_name_found_twice_is_an_error_that_names_both(world):
    register("paper", "other_people.envs:Stone")
    with pytest.raises(UsageError) as caught:
        resolve("paper")
    assert "found twice: some_envs.paper and other_people.envs:Stone" in str(caught.value)


def test_a_file_that_ends_the_program_is_refused(tmp_path):
    (tmp_path / "script.py").write_text("import sys\n\nsys.exit(0)\n")
    with pytest.raises(UsageError, match=r"script\.py can't be imported: SystemExit"):
        resolve(f"{tmp_path}/script.py:Env")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("papr", "--env papr: no such environment. Did you mean paper? `agentrl envs list` lists"),
        ("zzz", "--env zzz: no such environment. `agentrl envs list` lists all 4."),
        ("", "no such environment"),
        ("no.such.module:X", "no.such.module can't be imported: ModuleNotFoundError"),
        ("other_people.envs:Stne", "no environment Stne: it is not there. Did you mean Stone?"),
        ("other_people.envs:__doc__", "it is not a ToolEnv"),
        ("agentrl.env:ToolEnv", "it is not a ToolEnv"),
        ("glue", "some_envs.glue can't be imported: RuntimeError: imported without"),
        ("nowhere/file.py:X", "there is no file nowhere/file.py"),
    ],
)
def test_what_cannot_be_found_is_named_with_the_way_on(world, text, words):
    with pytest.raises(UsageError) as caught:
        resolve(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["paper*2,rock*1", "paper*2", "paper,"])
def test_a_mixture_is_none_and_that_is_said(world, text):
    with pytest.raises(UsageError, match="mixture"):
        resolve(text)


def test_a_file_that_breaks_is_told_with_the_line(world):
    path = world / "broken.py"
    path.write_text("import math\n\nmath.sqrt('x')\n")
    with pytest.raises(UsageError, match=r"TypeError: .* \(.*broken\.py:3\)$"):
        resolve(str(path))


def test_a_word_is_not_taken_for_true(world):
    (world / "lid.py").write_text(
        "from agentrl.env import ToolEnv\nclass Lid(ToolEnv):\n    '''Lid.'''\n"
        "    def __init__(self, shut: bool = True):\n        self.shut = shut\n"
    )
    assert make(f"{world}/lid.py", shut=False).shut is False
    with pytest.raises(UsageError, match=r"--env\.shut: 'maybe' does not fit"):
        make(f"{world}/lid.py", shut="maybe")


def test_a_file_with_several_environments_needs_a_class(world):
    with pytest.raises(UsageError, match="defines Stone, Sand"):
        resolve(f"{world}/other_people/envs.py")


def test_a_file_that_failed_can_be_mended_and_tried_again(world):
    path = world / "broken.py"
    path.write_text("1 / 0")
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        resolve(str(path))
    path.write_text(dedent(SOURCE))
    assert resolve(str(path)).__name__ == "Paper"


def test_options_are_keyword_arguments_and_unknown_ones_are_refused(world):
    assert make("paper", size="A5").size == "A5"
    with pytest.raises(UsageError, match=r"--env\.sise: paper has no such option. Did you mean si"):
        make("paper", sise="A5")
    with pytest.raises(UsageError, match=r"Its options: size, folded\."):
        make("paper", zzz=1)
    with pytest.raises(UsageError, match="--env paper: ValueError: there is no A99"):
        make("paper", size="A99")


def test_an_environment_without_options_says_so(world):
    (world / "plain.py").write_text(
        'from agentrl.env import ToolEnv\nclass Plain(ToolEnv):\n    """Plain."""\n'
    )
    with pytest.raises(UsageError, match="It has none"):
        make(f"{world}/plain.py", size=1)
    assert isinstance(make(f"{world}/plain.py"), ToolEnv)


def test_options_that_an_environment_collects_are_passed_on(world):
    (world / "open.py").write_text(
        "from agentrl.env import ToolEnv\nclass Open(ToolEnv):\n    '''Open.'''\n"
        "    def __init__(self, **options):\n        self.options = options\n"
    )
    assert make(f"{world}/open.py", size=1).options == {"size": 1}
