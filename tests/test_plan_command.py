"""`agentrl plan` as a person meets it: what fits, what to change, one line a mistake."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentrl.cli.entry import main
from agentrl.config import TrainConfig
from tests.shapes import FOLDER, config

GIB = 1024**3
CONFIGS = Path(__file__).parents[1] / "configs"


@pytest.fixture
def call(capfd):
    """Run the command in this process: exit code, standard output, standard error."""

    def run(line):
        return main(["plan", *shlex.split(line)]), *capfd.readouterr()

    return run


@pytest.fixture
def found(call):
    """Exit code and document."""

    def run(line):
        code, out, err = call(f"{line} --json")
        assert err == ""
        return code, json.loads(out)

    return run


def test_json_has_the_promised_names(found):
    code, plan = found(f"--model {FOLDER}/qwen3-4b.json --memory 80GiB --mode lora")
    assert code == 0
    assert plan["fits"] is True
    assert plan["tokens_per_micro_batch"] > 16384
    parts = plan["predicted_bytes"]
    assert {"states", "activations", "head", "total"} <= parts.keys()
    assert parts["total"] == sum(size for name, size in parts.items() if name != "total")
    assert plan["needed_bytes"] <= 80 * GIB
    assert plan["advice"] == []


def test_the_prediction_is_of_the_tokens_that_were_asked(found):
    _, short = found(f"--model {FOLDER}/qwen3-4b.json --memory 80 --mode lora --max-tokens 1000")
    _, long = found(f"--model {FOLDER}/qwen3-4b.json --memory 80 --mode lora --max-tokens 64,000")
    assert short["predicted_bytes"]["total"] < long["predicted_bytes"]["total"]
    assert short["tokens_per_micro_batch"] == long["tokens_per_micro_batch"]
    assert (short["tokens"], long["tokens"]) == (1000, 64000)


def test_the_largest_that_fits_fits_and_one_more_does_not(found):
    line = f"--model {FOLDER}/qwen2.5-0.5b.json --memory 24GB --max-tokens"
    _, plan = found(f"{line} 1")
    most = plan["tokens_per_micro_batch"]
    assert found(f"{line} {most}")[1]["fits"] is True
    code, over = found(f"{line} {most + 1}")
    assert (code, over["fits"]) == (3, False)


def test_where_nothing_fits_each_advice_does(found):
    line = f"--model {FOLDER}/qwen2.5-7b.json --memory 24GB --max-tokens 4096"
    code, plan = found(line)
    assert code == 3
    assert plan["tokens_per_micro_batch"] == 0
    assert plan["advice"]
    for advice in plan["advice"]:
        code, changed = found(f"{line} {advice['change']}")
        assert code == 0
        assert changed["tokens_per_micro_batch"] == advice["tokens_per_micro_batch"]


def test_an_engine_beside_it_leaves_less(found):
    line = f"--model {FOLDER}/qwen3-4b.json --memory 80 --mode lora --max-tokens 1 --engine"
    plans = [found(f"{line} {state}")[1] for state in ("none", "asleep", "awake")]
    most = [plan["tokens_per_micro_batch"] for plan in plans]
    assert most[0] > most[1] > most[2] > 0
    needed = [plan["needed_bytes"] for plan in plans]
    assert needed[2] - needed[0] == 32 * GIB


def test_a_person_reads_parts_sum_and_what_to_change(call):
    code, out, err = call(f"--model {FOLDER}/qwen2.5-7b.json --memory 24GB --max-tokens 4096")
    assert (code, err) == (3, "")
    for words in ("7.62 billion", "states", "total", "does not fit", "--mode lora", "4,096 tokens"):
        assert words in out
    code, out, _ = call(f"--model {FOLDER}/qwen2.5-7b.json --memory 2GB --max-tokens 1000000")
    assert code == 3
    assert "no change of these settings" in out


def test_a_folder_and_the_embedded_policy_are_models_too(found, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config("qwen3-0.6b")))
    assert found(f"--model {tmp_path} --memory 80")[1]["parameters"] == 596_049_920
    assert found("--model tiny --memory 2GiB")[1]["fits"] is True


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--model nowhere --memory 80", "can't be read"),
        ("--model {here}/no.json --memory 80", "not JSON"),
        ("--model {here}/list.json --memory 80", "Name another config.json"),
        ("--model {here}/empty.json --memory 80", "no model_type"),
        ("--model {here}/moe.json --memory 80", "mixture of experts"),
        ("--model {here} --memory 80", "config.json can't be read"),
        ("--model tiny --memory much", "not a size"),
        ("--model tiny", "required"),
        ("--model tiny --memory 80 --max-tokens 0", "--max-tokens"),
        ("--model tiny --memory 80 --max-tokens -5", "--max-tokens"),
        ("--model tiny --memory 80 --max-tokens 1.5", "--max-tokens"),
        ("--model tiny --memory 80 --mode lorra", "Did you mean lora"),
        ("--model tiny --memory 80 --kernels fast", "eager, compiled"),
        ("--model tiny --memory 80 --shards none", "--shards"),
        ("--model tiny --memory 80 --engine off", "--engine"),
        ("--model tiny --memory 80 --engine awake --engine-share 1.5", "--engine-share"),
        ("--model tiny --memory 80 --engine awake --engine-share nan", "--engine-share"),
        ("--model tiny --memory 80 --lora-rnk 8", "Did you mean --lora-rank"),
    ],
)
def test_a_mistake_is_one_line_with_its_name(call, tmp_path, line, words):
    (tmp_path / "no.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "empty.json").write_text("{}")
    moe = config("qwen3-4b") | {"model_type": "qwen3_moe", "num_experts": 128}
    (tmp_path / "moe.json").write_text(json.dumps(moe))
    code, out, err = call(line.format(here=tmp_path))
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_bytes_that_are_no_text_are_no_config(call, tmp_path):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    code, _, err = call(f"--model {tmp_path} --memory 80")
    assert code == 2
    assert "not JSON" in err


def test_a_plan_loads_no_library():
    program = (
        "import sys; from agentrl.cli.entry import main; "
        "main(['plan', '--model', 'tiny', '--memory', '8', '-q']); "
        "print({'torch', 'transformers', 'pydantic', 'numpy'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    ("file", "model", "memory"),
    [
        ("gpu-single-lora", "qwen2.5-3b", "79GiB"),
        ("gpu-single-full", "qwen3-4b", "139GiB"),
        ("mixture", "qwen3-4b", "79GiB"),
    ],
)
def test_a_config_for_one_gpu_fits_there(found, file, model, memory):
    settings = TrainConfig(**tomllib.loads((CONFIGS / f"{file}.toml").read_text()))
    update, rank = settings.update, settings.model.lora_rank
    mode = f"--mode lora --lora-rank {rank}" if rank else "--mode full"
    code, plan = found(
        f"--model {FOLDER}/{model}.json --memory {memory} {mode} "
        f"--optimizer {update.optimizer} --dtype {settings.model.dtype} "
        f"--checkpointing {update.checkpointing} "
        f"--engine awake --engine-share {settings.engine.memory_share} "
        f"--max-tokens {update.tokens_per_micro_batch}"
    )
    assert (code, plan["fits"]) == (0, True)
    longest = settings.rollout.max_context
    assert longest <= update.tokens_per_micro_batch <= plan["tokens_per_micro_batch"]
