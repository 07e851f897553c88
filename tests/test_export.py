"""What is exported is what was saved, in a folder that other programs read."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from agentrl import checkpoint, record
from agentrl.cli.entry import main
from agentrl.errors import UsageError
from agentrl.export import export
from agentrl.record import RunFolder
from agentrl.weights import ModelWeights, load_policy

IDS = [3, 14, 15, 92, 65, 35]
FACTS = {
    "status": "done",
    "version": "1.0",
    "env": "tool_math",
    "model": "tiny",
    "n": 8,
    "m": 4,
    "seed": 3,
    "started": "2026-12-01T00:00:00+00:00",
    "heldout": {"before": {"mean": 0.25, "low": 0.1, "high": 0.4, "tasks": 20, "k": 1}},
    "tokens": {"sampled": 12345},
}


def moved(policy, step: int, *, rank: int = 0) -> None:
    """Weights that no file had before."""
    draw = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for name, held in policy.model.named_parameters():
            if held.requires_grad and (not rank or ".lora_" in name):
                held.add_(0.02 * torch.randn(held.shape, generator=draw))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A run of a whole model with two checkpoints, and one of an adapter."""
    root = tmp_path_factory.mktemp("runs")
    for name, rank in (("whole", 0), ("adapted", 4)):
        folder = record.create(str(root), name, "x")
        policy = load_policy("tiny", device="cpu", lora_rank=rank)
        for step in (1, 2):
            moved(policy, step, rank=rank)
            about = {"versions": {"torch": "2"}, "settings": {"update": {"loss": "grpo"}}}
            parts = {"policy": policy}
            accuracy = step / 8
            checkpoint.save(folder.checkpoints, step, parts, keep=2, accuracy=accuracy, about=about)
        folder.write_run(FACTS)
    return root


def logprobs(folder: Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits.log_softmax(-1)


@pytest.mark.parametrize(("name", "step"), [("whole", 1), ("whole", None), ("adapted", None)])
def test_the_exported_model_computes_what_the_checkpoint_does(runs, tmp_path, name, step) -> None:
    run = RunFolder(runs / name)
    out = tmp_path / "out"
    told = export(run, out, step=step)
    assert (told.step, told.form, told.accuracy) == (step or 2, "model", (step or 2) / 8)
    saved = checkpoint.find(run.checkpoints, step) / "policy"
    assert torch.equal(logprobs(out), logprobs(saved))
    ours = load_policy(str(saved), device="cpu").model
    theirs = load_policy(str(out), device="cpu").model
    said = ModelWeights(theirs).fingerprint(IDS)
    assert said == ModelWeights(ours).fingerprint(IDS)


def test_a_merged_adapter_is_the_adapted_model(runs, tmp_path) -> None:
    export(RunFolder(runs / "adapted"), tmp_path / "out")
    adapted = load_policy("tiny", device="cpu", lora_rank=4)
    adapted.load(checkpoint.find(runs / "adapted" / "checkpoints") / "policy")
    merged = load_policy(str(tmp_path / "out"), device="cpu")
    found = ModelWeights(merged.model).fingerprint(IDS)
    assert found == pytest.approx(ModelWeights(adapted.model).fingerprint(IDS), abs=1e-4)
    assert not (tmp_path / "out" / "adapter").exists()


def test_a_tokenizer_with_its_template_and_generation_settings_come_along(runs, tmp_path) -> None:
    export(RunFolder(runs / "whole"), tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ours = load_policy("tiny", device="cpu").tokenizer
    assert tokenizer.chat_template == ours.chat_template
    assert tokenizer.encode("What is 2+2?") == ours.encode("What is 2+2?")
    assert GenerationConfig.from_pretrained(tmp_path / "out").eos_token_id == 1


def test_peft_reads_an_exported_adapter(runs, tmp_path) -> None:
    peft = pytest.importorskip("peft")
    run = RunFolder(runs / "adapted")
    told = export(run, tmp_path / "out", adapter=True)
    assert told.form == "adapter"
    assert not list((tmp_path / "out").glob("model*.safetensors"))
    base = load_policy("tiny", device="cpu").model
    model = peft.PeftModel.from_pretrained(base, tmp_path / "out").eval()
    with torch.no_grad():
        found = model(torch.tensor([IDS])).logits.log_softmax(-1)
    saved = logprobs(checkpoint.find(run.checkpoints) / "policy")
    assert torch.allclose(found, saved, atol=1e-4)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").chat_template


def test_a_base_that_is_a_folder_is_named_whole(runs, tmp_path, monkeypatch) -> None:
    shutil.copytree(runs / "adapted", tmp_path / "run")
    found = checkpoint.find(tmp_path / "run" / "checkpoints")
    config = found / "policy" / "adapter" / "adapter_config.json"
    told = json.loads(config.read_text()) | {"base_model_name_or_path": "base"}
    config.write_text(json.dumps(told))
    manifest = checkpoint.Manifest.read(found)
    described = checkpoint.described(found)
    checkpoint.Manifest(manifest.step, described, None, manifest.about).write(found)
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)
    export(RunFolder(tmp_path / "run"), tmp_path / "out", adapter=True)
    written = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert written["base_model_name_or_path"] == str(tmp_path / "base")


def test_the_readme_says_where_it_came_from(runs, tmp_path) -> None:
    export(RunFolder(runs / "whole"), tmp_path / "out", step=2)
    text = (tmp_path / "out" / "README.md").read_text()
    for line in (
        "# whole, step 2",
        "* base model: `tiny`",
        "* environment: `tool_math`",
        "* method: grpo, 4 of 8 trajectories kept",
        "* held-out accuracy before: 0.250 [0.100, 0.400] on 20 tasks",
        "* held-out accuracy at this step: 0.250",
    ):
        assert line in text.splitlines()
    manifest = checkpoint.newest(runs / "whole" / "checkpoints").manifest
    assert manifest.files["policy/model.safetensors"]["sha256"] in text


def everything(root: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("whole", "--out", "there"), "there: it is there. It would be overwritten"),
        (("whole", "--out", "new", "--adapter"), "has none: its run trained the model itself"),
        (("whole", "--out", "new", "--step", "9"), "no whole checkpoint of step 9. It has 000001"),
        (("whole", "--out", "new", "--step", "x"), "--step x: no step"),
        (("whole", "--out", "new", "--merge", "--adapter"), "Give one of them"),
        (("other", "--out", "new"), "no such run"),
        (("whole", "--out", "/dev/null/new"), "it could not be written"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_nothing(
    runs, tmp_path, monkeypatch, capsys, words, reason
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("x")
    before = everything(tmp_path)
    assert main(["export", *words, "--runs", str(runs)]) in (1, 2)
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
    assert everything(tmp_path) == before


def test_a_damaged_checkpoint_is_not_exported(runs, tmp_path) -> None:
    shutil.copytree(runs / "whole", tmp_path / "run")
    path = tmp_path / "run/checkpoints/000002/policy/model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert export(RunFolder(tmp_path / "run"), tmp_path / "out").step == 1
    with pytest.raises(UsageError, match=r"model\.safetensors is not what was written"):
        export(RunFolder(tmp_path / "run"), tmp_path / "other", step=2)


def test_the_command_says_what_it_wrote(runs, tmp_path, capsys) -> None:
    words = ["export", "adapted", "--runs", str(runs), "--out", str(tmp_path / "out"), "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["step"], told["form"], told["base"]) == (2, "model", "tiny")
    assert told["bytes"] == sum(p.stat().st_size for p in (tmp_path / "out").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
def test_vllm_loads_an_exported_model_and_a_checkpoint(runs, tmp_path) -> None:
    import asyncio

    from agentrl.engines.vllm import VllmEngine
    from agentrl.policy import Request, Sampling

    export(RunFolder(runs / "adapted"), tmp_path / "out")
    model = load_policy(str(tmp_path / "out"), device="cpu").model
    engine = VllmEngine(
        tmp_path / "out",
        dtype="float32",
        max_context=256,
        max_live=4,
        memory_share=0.1,
        cache_gib=0.05,
        seed=0,
    )
    try:
        asyncio.run(engine.load(ModelWeights(model), 0))
        asked = Request((3, 5, 7), 20, (), Sampling(), 1, (0, 0))
        found = asyncio.run(engine.generate(asked))
    finally:
        asyncio.run(engine.close())
    said = ModelWeights(model).fingerprint((3, 5, 7, *found.ids))[2:]
    assert found.logprobs == pytest.approx(said, abs=1e-3)
