"""The command line as a person meets it: real processes, exit codes, one line a mistake."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from agentrl import machine
from agentrl.cli.entry import COMMANDS, conclude, main
from agentrl.cli.parser import split_settings
from agentrl.errors import EngineError, RunError, UsageError

HEAVY = ("torch", "transformers", "vllm", "gymnasium", "pydantic", "numpy")


@pytest.fixture
def call(capfd):
    """Run a command in this process: exit code, standard output, standard error."""

    def run(*words):
        code = main(words)
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def refused(call):
    """What a refused command says."""

    def run(*words):
        code, out, err = call(*words)
        assert code == 2
        assert bool(out) == ("--json" in words)
        assert err.count("\n") == 1
        return err.rstrip("\n")

    return run


def process(*words, **how):
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "agentrl", *words], capture_output=True, text=True, **how
    )


def test_a_process_ends_with_the_code_and_the_line_of_its_mistake():
    done = process("train", "--m", "80")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "--m 80: can't keep 80 of n = 32. Lower --m or raise --n.\n"


def test_help_and_version_load_only_the_standard_library():
    script = (
        "import sys; from agentrl.cli import main; main(['--help']); main(['--version']);"
        f"sys.exit(str([m for m in {HEAVY} if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_help_ends_with_two_examples(command, capsys):
    with suppress(SystemExit):
        main([*command.split(), "--help"])
    out = capsys.readouterr().out
    examples = out.rstrip("\n").split("examples:\n")[1].splitlines()
    assert len(examples) == 2
    assert all(line.startswith(f"  agentrl {command}") for line in examples)


def test_help_lists_every_command(call):
    _, out, _ = call("--help")
    assert all(f"  {name} " in out for name in COMMANDS)


def test_without_a_command_the_help_is_shown_and_the_code_says_that_something_was_missing(call):
    code, out, _ = call()
    assert code == 2
    assert out.startswith("usage: agentrl COMMAND")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trian", "trian: no such command. Did you mean train?"),
        ("xyz", "xyz: no such command. `agentrl --help` lists all."),
        ("train --m 80", "--m 80: can't keep 80 of n = 32. Lower --m or raise --n."),
        ("train --selct.m 3", "--selct.m: not a setting. Did you mean --select.m?"),
        ("train --stesp 3", "--stesp: no such option of `agentrl train`. Did you mean --steps?"),
        ("train --steps", "--steps: a value must follow. Write --steps VALUE."),
        ("train --steps --json", "--steps: a value must follow. Write --steps VALUE."),
        ("train more", "more: no such argument of `agentrl train`. "),
        ("train --config tool_mth", "--config tool_mth: no such configuration. Did you mean "),
        ("train --config no/where.toml", "no/where.toml: cannot be read. "),
        ("train --resume no_run", "no_run: no such run. "),
        ("train --name a/b", "--name a/b: a name is one folder, not a path."),
        ("train --name ..", "--name ..: a name is one folder, not a path."),
        ("eval --out /dev/null/x", "--out /dev/null/x: cannot be written at /dev/null."),
        ("eval --split tset", "--split tset: not one. Did you mean test? "),
        ("envs lst", "agentrl envs lst: no such action. Did you mean list?"),
    ],
)
def test_what_was_given_wrong_is_told_in_one_line(line, message, refused):
    assert refused(*shlex.split(line)).startswith(message)


def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("\n[selct]\nm = 2\n")
    said = refused("train", "--config", "mine.toml")
    assert said == "mine.toml:2: [selct] is not a setting. Did you mean [select]?"


def test_verbose_adds_the_traceback(call):
    code, _, err = call("train", "--m", "80", "-v")
    assert code == 2
    assert "Traceback" in err
    assert err.endswith("--m 80: can't keep 80 of n = 32. Lower --m or raise --n.\n")


def raises(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x: wrong."), 2),
        (EngineError("x: failed."), 1),
        (RunError("x: failed."), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_the_exit_code_says_whose_fault_it_was(error, code, capsys):
    assert conclude(raises(error)) == code
    assert capsys.readouterr().err == f"{str(error) or 'interrupted.'}\n"


def test_a_path_that_the_system_keeps_shut_is_no_bug(capsys):
    assert conclude(raises(PermissionError(errno.EACCES, "Permission denied", "shut/x"))) == 2
    said = "shut/x: Permission denied. Give a path that you may use, or change who may.\n"
    assert capsys.readouterr().err == said
    for odd in (PermissionError(errno.EACCES, "x"), OSError(errno.EIO, "x", "file")):
        with pytest.raises(OSError, match="x"):
            conclude(raises(odd))


def test_a_message_that_quotes_lines_is_one_line(capsys):
    assert conclude(raises(UsageError("x: wrong.\n\n  Really. "))) == 2
    assert capsys.readouterr().err == "x: wrong. Really.\n"


def test_what_quotes_a_terminals_commands_does_not_give_them(capsys):
    conclude(raises(UsageError("x: \x1b[31mred\x07 é\u202e\ud800.")))
    assert capsys.readouterr().err == "x: \\x1b[31mred\\x07 é\\u202e\\ud800.\n"


@pytest.mark.parametrize("error", [UsageError("x: two\nlines"), RunError("x: \ud800")])
def test_as_json_an_error_is_the_one_document(error, capsys):
    conclude(raises(error), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"error": str(error)}


def test_a_bug_passes_with_its_traceback_and_is_called_ours():
    with pytest.raises(ZeroDivisionError):
        conclude(raises(ZeroDivisionError()))
    script = (
        "import sys; from agentrl.cli.entry import report_bug; sys.excepthook = report_bug; 1/0"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "this is ours" in done.stderr.splitlines()[-1]


def test_an_interrupt_ends_with_130(tmp_path):
    pipe = tmp_path / "rows.jsonl"
    os.mkfifo(pipe)
    words = ["select", "--file", str(pipe), "--m", "2", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "agentrl", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that a shell runs in the background inherits an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    # Opening a pipe waits for its reader, so from here on the process is at work.
    with pipe.open("w"):
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted.\n")


def test_a_reader_that_leaves_early_is_no_traceback():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "agentrl", "select", "--rewards", "0,1", "--m", "2"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_environments_are_listed_with_what_they_are(call):
    code, out, _ = call("envs", "list")
    assert code == 0
    assert any(line.startswith("tool_math  ") for line in out.splitlines())
    code, out, _ = call("envs", "--json")
    assert {"name", "summary"} == set(json.loads(out)[0])


ENVIRONMENT = """
import agentrl, sys
print("said by the environment")

class Empty(agentrl.ToolEnv):
    def __init__(self, level=1):
        self.level = level
"""


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A folder with an environment, and we in it."""
    (tmp_path / "mine.py").write_text(ENVIRONMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dry_run_shows_what_was_given_and_writes_nothing(there, call):
    code, out, err = call(
        *("train", "--env", "mine.py", "--m", "16", "--env.level", "3", "--dry-run")
    )
    assert (code, err) == (0, "")
    assert "n 32 -> m 16" in out
    assert [line.split()[:3] for line in out.splitlines() if line.startswith("  ")] == [
        ["env.name", '"mine.py"', "--env"],
        ["select.m", "16", "--m"],
        ["env.options.level", "3", "--env.level"],
    ]
    assert {path.name for path in there.iterdir()} <= {"mine.py", "__pycache__"}


def test_with_json_even_what_an_environment_prints_goes_to_standard_error(there, call):
    code, out, err = call("train", "--env", "mine.py", "--dry-run", "--json")
    found = json.loads(out)
    assert code == 0
    assert "said by the environment" in err
    assert found["config"]["env"]["name"] == "mine.py"
    assert found["origin"]["env.name"] == "--env"


def test_a_dry_run_refuses_an_option_that_the_environment_does_not_have(there, call):
    code, _, err = call("train", "--env", "mine.py", "--env.levle", "3", "--dry-run")
    assert code == 2
    assert err.startswith("--env.levle: ")


def test_a_resumed_run_starts_from_its_own_settings(there, call):
    run = there / "runs" / "old"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"status": "stopped"}')
    (run / "config.toml").write_text("[env]\nname = 'mine.py'\n[select]\nm = 4\n")
    words = ("train", "--resume", "--steps", "99", "--dry-run", "--json")
    _, out, _ = call(*words)
    found = json.loads(out)
    assert found["config"]["select"]["m"] == 4
    assert found["config"]["train"]["steps"] == 99
    assert found["origin"]["select.m"] == "runs/old/config.toml:4"


def test_a_process_is_begun_again_so_that_the_allocator_reads_its_variables(tmp_path):
    note = tmp_path / "note"
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        f"with open({str(note)!r}, 'a') as file:\n"
        "    print(os.getpid(), os.environ.get('MALLOC_ARENA_MAX'), file=file)\n"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC", "OMP"))}
    environ["PYTHONPATH"] = str(tmp_path)
    process("train", "--m", "80", env=environ)
    (number, value), *again = [line.split() for line in note.read_text().splitlines()]
    assert value == "None"
    assert again in ([[number, "2"]], [])
    assert bool(again) == (sys.platform == "linux" and not machine.has_gpu())


def test_settings_are_taken_out_of_the_words_in_their_order():
    words = ["--m", "4", "--json", "--select.m=5", "--record.tokens", "--resume", "--n", "-1"]
    flags, rest = split_settings(words, {"--m": "select.m", "--n": "select.n"}, {"record.tokens"})
    assert flags == [("--m", "4"), ("--select.m", "5"), ("--record.tokens", "true"), ("--n", "-1")]
    assert rest == ["--json", "--resume"]
