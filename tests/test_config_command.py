"""`agentrl config`: settings with their origins, mistakes in files, differences, a schema."""

from __future__ import annotations

import json
import os
import sys
import tomllib

import jsonschema
import pytest
from hypothesis import given
from hypothesis import settings as at_most

from agentrl.cli.config_check import checked
from agentrl.cli.config_schema import schema
from agentrl.cli.entry import main
from agentrl.cli.named import FAMILIES, command_of
from agentrl.config import TrainConfig
from agentrl.settings import config_folders, dump_toml
from agentrl.tomlfile import TomlFile, read
from tests.test_settings import CONFIGS

SHIPPED = sorted(path for folder in config_folders() for path in folder.glob("*.toml"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, and we in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(capfd):
    """Run an action: exit code, standard output, standard error."""

    def run(*words):
        code = main(["config", *words])
        return code, *capfd.readouterr()

    return run


def mistakes(text, path):
    path.write_text(text, encoding="utf-8")
    return checked(str(path))[1]


def run_folder(root, **more):
    root.mkdir(parents=True)
    config = TrainConfig.model_validate({"env": {"options": {"digits": 3}}, **more})
    (root / "config.toml").write_text(dump_toml(config), encoding="utf-8")
    (root / "origin.json").write_text(json.dumps({"select.m": "--m", "env.name": "default"}))
    return root


def test_every_setting_is_shown_with_where_it_comes_from(here, call):
    (here / "mine.toml").write_text("[train]\nsteps = 7\n[env]\nname = 'shop'\nsize = 3\n")
    code, out, err = call("show", "--config", "mine.toml", "--m", "16", "--env.seed=2")
    assert (code, err) == (0, "")
    lines = {
        line.split(" ", 1)[0]: line.split("  # ")[1] for line in out.splitlines() if "  #" in line
    }
    assert lines["steps"] == "mine.toml:2"
    assert lines["m"] == "--m"
    assert lines["size"] == "mine.toml:5"
    assert lines["seed"] == "default"
    assert "rule" in lines


def test_what_is_shown_is_toml_that_gives_the_same_settings(here, call):
    _, out, _ = call("show", "--n", "12", "--env.story", 'a "b"\n', "--name", "käse")
    assert tomllib.loads(out)["select"]["n"] == 12
    (here / "again.toml").write_text(out, encoding="utf-8")
    _, again, _ = call("show", "--config", "again.toml")
    assert tomllib.loads(again) == tomllib.loads(out)


def test_the_command_is_the_one_that_the_file_fits_or_the_one_that_is_said(here, call):
    (here / "mine.toml").write_text("[eval]\nk = 4\n")
    assert json.loads(call("show", "--config", "mine.toml", "--json")[1])["command"] == "eval"
    found = json.loads(call("show", "--for", "rollout", "--n", "3", "--json")[1])
    assert found["config"]["collect"]["n"] == 3
    assert found["origin"]["collect.n"] == "--n"


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        (["env", "model"], "train"),
        (["env", "eval"], "eval"),
        (["suite", "rollout"], "eval"),
        (["collect"], "rollout"),
        (["model", "update", "sft"], "sft"),
        (["model", "update", "sft", "env", "rollout", "out"], "sft"),
        (["selct"], "train"),
        ([], "train"),
    ],
)
def test_a_file_is_for_the_command_whose_settings_it_has_most_of(keys, command):
    assert command_of(TomlFile("x.toml", {key: {} for key in keys}, {})) == command


def test_of_a_run_it_is_shown_where_its_settings_came_from(here, call):
    run_folder(here / "runs" / "old", select={"n": 8, "m": 4})
    for word in ("old", "runs/old", str(here / "runs" / "old")):
        found = json.loads(call("show", word, "--n", "16", "--json")[1])
        assert found["config"]["select"] | {"n": 16, "m": 4} == found["config"]["select"]
        assert found["origin"]["select.m"] == "--m"
        assert found["origin"]["select.n"] == "--n"
        assert found["origin"]["env.options.digits"].endswith("config.toml:9")


def test_a_right_file_is_called_right(here, call):
    for path in SHIPPED:
        code, out, err = call("check", path.stem)
        assert (code, out, err) == (0, f"{path.stem}: right, for `agentrl train`.\n", "")
    assert call("check", "tool_math", "-q") == (0, "", "")


def test_every_mistake_is_listed_with_its_line_and_the_code_is_2(here, call):
    (here / "mine.toml").write_text(
        "[selct]\nn = 3\n[select]\nm = 'x'\n\nk = 3\n[train]\nsteps = true\nlr = 1\n"
    )
    code, out, err = call("check", "mine.toml", "tool_math")
    assert (code, err) == (2, "")
    assert [line.partition(": ")[0] for line in out.splitlines()] == [
        *("mine.toml:1", "mine.toml:4", "mine.toml:6", "mine.toml:8", "mine.toml:9"),
        "tool_math",
    ]
    document = json.loads(call("check", "mine.toml", "--json")[1])
    assert document[0]["file"] == "mine.toml"
    assert "\n".join(document[0]["problems"]) in out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[select]\nn = 4\nm = 8\n", ["3: select.m = 8: can't keep 8 of n = 4. "]),
        ("[model]\nlora_alpha = 1\nbase_bits = 4\n", ["2: model.lora_alpha = 1: lora_alpha: "]),
        (
            "[engine]\nurls = ['a', 3]\nname = 'vllm-server'\n",
            ['2: engine.urls = ["a", 3]: must be text. '],
        ),
        ("[engine]\nurls = 'a'\n", ['2: engine.urls = "a": must be a list. ']),
        ("[select.n]\na = 1\n", ["1: select.n = { a = 1 }: must be a whole number. "]),
        ("[[select]]\nn = 1\n", ["1: select is a section. "]),
        ("env = 'a'\n", ["1: env is a section. "]),
        ("[update]\nlr = nan\n", ["2: update.lr = nan: must be more than 0. "]),
        ("[update]\nmemory = 2024-01-01\n", ["2: update.memory = 2024-01-01: must be text. "]),
        ("[update]\nlr = true\n", ["2: update.lr = true: must be a number. "]),
        ("[select]\nn = 4\nn = 5\n", ["3: not TOML. Cannot overwrite a value at column 6. "]),
        ("[select]\n[select]\n", ["2: not TOML. "]),
        ("a = " + "[" * 5000 + "]" * 5000, ["1: not TOML. "]),
        ("a = " + "9" * 5000, ["1: not TOML. "]),
        ("[env]\nname = 'tool_mth'\n", ['2: env.name = "tool_mth": no such environment. Did you']),
        ("[env]\nname = 'no.py:X'\n", ['2: env.name = "no.py:X": there is no file no.py. ']),
        ("[env]\nname = 'shop,'\n", ['2: env.name = "shop,": a name is missing. ']),
        ("[env]\ndificulty = 'x'\n", ["2: env.options.dificulty: tool_math has no such option. "]),
        ("[env]\nname = 'gem/x'\ny = 3\n", []),
        ("[[suite]]\nenv.name = 'shop'\n[[suite]]\nenv.name = 'shop'\n", [" [[suite]] number 2: "]),
        ("[[suite]]\nenv.name = 'shop'\neval.k = 3\n", []),
        ("[eval]\nk = 0\n[[suite]]\nenv.name = 'shop'\n", ["2: eval.k = 0: must be at least 1. "]),
        ("\ufeff[select]\r\nn = 4\r\nm = 2\r\n", []),
        ("", []),
    ],
)
def test_mistakes_are_told_by_their_line(text, expected, tmp_path):
    path = tmp_path / "käse [1].toml"
    found = mistakes(text, path)
    assert len(found) == len(expected)
    for said, begins in zip(found, expected, strict=True):
        assert said.startswith(f"{path}:{begins}")


def test_what_a_wrong_setting_would_make_of_others_is_not_guessed(tmp_path):
    found = mistakes("[select]\nm = 40\nnn = 64\n", tmp_path / "x.toml")
    assert [said.partition(": ")[2] for said in found] == [
        "select.nn is not a setting. Did you mean select.n?"
    ]


def test_what_is_no_file_is_a_mistake_too(here, call):
    (here / "folder").mkdir()
    (here / "bytes.toml").write_bytes(b"name = '\xff'")
    long = "x" * 5000 + ".toml"
    words = ("folder", "./folder.toml", "bytes.toml", "/dev/zero", long, "tool_mth", "")
    code, out, err = call("check", *words)
    assert (code, err) == (2, "")
    assert len(out.splitlines()) == len(words)
    assert "folder: a folder without config.toml. " in out
    assert "/dev/zero: more than 10000000 characters. " in out


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_a_name_that_is_not_utf_8_is_written_as_it_can_be(here, call):
    name = os.fsdecode(b"\xff\n.toml")
    (here / name).write_text("[select]\nn = 1\n")
    code, out, _ = call("check", name)
    assert (code, out.count("\n")) == (2, 1)
    assert out.startswith("\\udcff .toml:2: ")
    assert json.loads(call("check", name, "--json")[1])[0]["file"] == name
    assert tomllib.loads(call("show", "--config", name, "--n", "9", "--m", "2")[1])


def test_only_what_differs_is_told(here, call):
    run_folder(here / "a", select={"n": 8, "m": 4})
    run_folder(here / "b", select={"n": 8, "m": 5}, env={"options": {"story": "x"}})
    code, out, _ = call("diff", "a", "b")
    assert code == 0
    assert out.splitlines() == [
        "select.m  4 (--m) -> 5 (--m)",
        "env.options.digits  3 (a/config.toml:9) -> nothing (not given)",
        'env.options.story  nothing (not given) -> "x" (b/config.toml:9)',
    ]
    document = json.loads(call("diff", "a", "b", "--json")[1])
    assert document[0] == {
        **{"name": "select.m", "a": 4, "b": 5, "a_origin": "--m", "b_origin": "--m"}
    }
    assert call("diff", "a", "a") == (0, "no setting differs\n", "")


def test_settings_of_two_commands_are_not_compared(here, call):
    (here / "e.toml").write_text("[eval]\nk = 2\n")
    code, _, err = call("diff", "tool_math", "e.toml")
    assert code == 2
    assert err.startswith("tool_math and e.toml: settings of `agentrl train` and of `agentrl eval`")


@pytest.mark.parametrize("command", FAMILIES)
def test_the_schema_is_one_and_takes_every_default(command, call):
    found = json.loads(call("schema", "--for", command)[1])
    jsonschema.Draft7Validator.check_schema(found)
    defaults = FAMILIES[command].model().model_dump(mode="json")
    jsonschema.validate(defaults, found)
    text = json.dumps(found)
    assert all(setting in text for setting in defaults)


VALIDATOR = jsonschema.Draft7Validator(schema(TrainConfig, "train"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_schema_takes_every_shipped_file(path):
    VALIDATOR.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@at_most(max_examples=30)
@given(CONFIGS)
def test_the_schema_takes_what_a_run_writes(config):
    written = tomllib.loads(dump_toml(config))
    # JSON has no dates; the options are the environment's own.
    written.get("env", {}).pop("options", None)
    VALIDATOR.validate(written)


@pytest.mark.parametrize(
    "text",
    ["[selct]\n", "[select]\nm = 'x'\n", "[select]\nn = 1\n", "[select]\nrule = 'frist'\n"],
)
def test_the_schema_refuses_what_the_check_refuses(text, tmp_path):
    assert mistakes(text, tmp_path / "x.toml")
    assert not VALIDATOR.is_valid(tomllib.loads(text))


def test_the_schema_of_evaluations_takes_suites():
    suite = tomllib.loads("[eval]\nk = 2\n[[suite]]\nname = 'a'\nenv.name = 'shop'\n")
    found = schema(FAMILIES["eval"].model, "eval")
    jsonschema.validate(suite, found)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"suite": [{"nam": "a"}]}, found)


def test_lines_are_found_behind_long_lists(tmp_path):
    path = tmp_path / "x.toml"
    rows = "".join(f"  {number},\n" for number in range(3000))
    path.write_text(f"[env]\nlist = [\n{rows}]\nafter = 1\n")
    assert read(path).where(("env", "after")).endswith(":3004")
