"""Wrong command lines: exit code 2, one line that says what to do, and nothing written."""

from __future__ import annotations

import shlex

import pytest

from agentrl.cli.entry import COMMANDS, main
from tests.test_refusals import lack

FILES = {
    "file": "",
    "broken.toml": "[select\n",
    "typo.toml": "[selct]\n",
    "empty.toml": "",
    "suite.toml": "[[suite]]\nname = 'x'\n",
    "empty.json": "{}",
    "list.json": "[]",
    "rows.jsonl": '{"reward": "x"}\n',
    "broken.jsonl": "{\n",
    "binary.jsonl": "\x00\ufffe",
    "no_class.py": "x = 1\n",
    "raises.py": "raise RuntimeError('at import')\n",
    "käse/run.json": "{}",
    "old/run.json": '{"status": "done"}',
}

LINES = """
    trian
    train more
    train --n
    train --n x
    train --n 1
    train --m 80
    train --seed 1.5
    train --seed -1
    train --rule frist
    train --steps 1e3
    train --lr nan
    train --memory lots
    train --token-budget -5
    train --select.zz 3
    train --env nope
    train --env ''
    train --env no_class.py
    train --env raises.py:X
    train --env nowhere.py:X
    train --env file
    train --env gem/
    train --env 'tool_math*0,shop'
    train --env.nope 3 --progress off
    train --env.calls null
    train --config nowhere
    train --config nowhere.toml
    train --config broken.toml
    train --config typo.toml
    train --config .
    train --config ./
    train --config binary.jsonl.toml
    train --model nowhere --progress off
    train --model file --progress off
    train --engine vllm-server
    train --engine nope
    train --url http://a
    train --rollout.temperature 0
    train --record.sinks nope
    train --model.lora_alpha 3
    train --select.unbiased true
    train --train.pilot 2 --train.pilot_certainty 1
    train --name a/b
    train --name ..
    train --out file --progress off
    train --out file/deeper --progress off
    train --name käse --out . --progress off
    train --resume gone
    train --resume käse
    train --resume old
    eval --k 0
    eval --split tset
    eval --run gone
    eval --run old@x
    eval --run käse
    eval --base-url ftp://x --model m
    eval --base-url http://h/v1
    eval --base-url http://u:p@h/v1 --model m
    eval --suite nowhere.toml
    eval --suite empty.toml
    eval --suite suite.toml
    eval --suite broken.toml
    eval --resume
    eval --resume gone
    eval --resume a --out b
    eval --template nowhere.jinja
    eval --out file
    eval --model.lora_rank 4
    rollout
    rollout --out broken.jsonl
    rollout --out file/x.jsonl
    rollout --run gone --out x.jsonl
    rollout --tasks 0 --out x.jsonl
    sft
    sft --out x
    sft --data gone.jsonl --out x
    sft --data broken.jsonl --out x
    sft --data binary.jsonl --out x
    sft --data . --out x
    sft --data rows.jsonl --out x --keep nonsense
    sft --data rows.jsonl --out x --loss dapo
    serve --port 99999
    serve --port x
    serve --timeout 0
    plan
    plan --model nowhere --memory 80
    plan --model empty.json --memory 80
    plan --model list.json --memory 80
    plan --model file --memory 80
    plan --model tiny --memory lots
    plan --model tiny --memory 80 --mode nope
    plan --model tiny --memory 80 --max-tokens 0
    plan --model tiny --memory 80 --engine-share 2
    runs --out gone
    runs more
    envs lst
    envs show
    envs show nope
    envs show no_class.py
    envs check nope
    envs check tool_math --seconds 0
    envs check tool_math --env.nope 3
    envs play nope
    envs play tool_math --index -1
    envs play tool_math --index 999999999
    envs new
    envs new 1bad
    envs new no_class
    tools lst
    tools show nope
    tools call nope
    tools call calculator evaluate
    tools call calculator expression
    tools call calculator expression=@nowhere
    tools call calculator expression=1 expression=2
    mcp
    mcp nope
    mcp tool_math --index 999999999
    select
    select --m 2
    select --rewards 0,x --m 2
    select --rewards 0,1 --m 0
    select --rewards 0,1 --m 2 --rule nope
    select --rewards 0,1 --m 2 --tokens 1
    select --rewards 0,1 --m 2 --token-budget auto
    select --file gone --m 2
    select --file rows.jsonl --m 2
    select --file broken.jsonl --m 2
    select --file binary.jsonl --m 2
    select --file . --m 2
    select gone --step 1
    select old --step 1
    select old
    compare
    compare gone old
    compare file file
    rescore
    rescore gone --reward no_class.py:f
    rescore rows.jsonl --reward no_class.py:f
    export
    export gone
    export old
    export käse
    export LONG --out x
    runs --out LONG
    train --resume LONG
    config
    config nope
    config show --for nope
    config show --config broken.toml
    config show --n 1
    config show gone
    config show käse
    config show --k 3
    config check
    config diff empty.toml
    config diff empty.toml gone
    config diff . empty.toml
    config schema --for nope
    doctor more
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with things to stumble over, and we in it."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def content(folder):
    there = {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
    return {path: held for path, held in there.items() if "__pycache__" not in path.parts}


@pytest.mark.parametrize("line", [line.strip() for line in LINES.strip().splitlines()])
def test_a_wrong_line_is_told_in_one_and_writes_nothing(line, folder, capfd):
    before = content(folder)
    long = "x" * 300
    assert main(shlex.split(line.replace("LONG", long))) == 2
    out, err = (text.replace(long, "LONG") for text in capfd.readouterr())
    assert (out, err.count("\n")) == ("", 1), err
    assert "Traceback" not in err
    assert lack(err.strip()) == "", err
    assert content(folder) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_what_it_does_not_know(command, folder, capfd):
    before = content(folder)
    assert main([command, "--no-such-thing"]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    assert lack(err.strip()) == "", err
    assert content(folder) == before
