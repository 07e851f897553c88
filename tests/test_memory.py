"""The memory of an update: counted from config.json, held against a tracker and real runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl.memory import Regime, Shape, footprint, most_tokens, shape_of
from agentrl.memory.activations import widths
from agentrl.memory.footprint import need
from agentrl.memory.ladder import CHANGES, ladder
from agentrl.memory.regime import WORDS
from agentrl.memory.size import parse_size
from tests.shapes import FOLDER, config, shape
from tests.track import peak

GIB = 1024**3
SMALL_CHUNKS = 256 << 20
"""What head.py allows a chunk on a CPU, where the tracker counts."""

TRACKED = ("smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b", "llama-3.2-1b")

PUBLISHED = (
    ("qwen3-0.6b", 16384, 12.5, Regime()),
    ("qwen3-0.6b", 65536, 19.6, Regime()),
    ("qwen3-0.6b", 16384, 5.1, Regime(mode="lora")),
    ("qwen3-0.6b", 65536, 11.5, Regime(mode="lora")),
    ("qwen3-4b", 16384, 23.3, Regime(mode="lora")),
    ("qwen3-4b", 65536, 42.0, Regime(mode="lora")),
    ("qwen3-4b", 16384, 20.6, Regime(mode="lora", checkpointing="offload")),
    ("qwen3-4b", 65536, 31.1, Regime(mode="lora", checkpointing="offload")),
    ("qwen3-4b", 16384, 17.1, Regime(shards=8)),
    ("qwen3-4b", 65536, 36.1, Regime(shards=8)),
    ("qwen3-0.6b", 8192, 31.7, Regime(head="whole")),
    ("qwen3-0.6b", 16384, 52.8, Regime(head="whole")),
)
"""Peaks, in GiB, that prime-rl publishes: compiled, float32 weights, bfloat16 computation."""

shapes = st.builds(
    Shape,
    layers=st.integers(1, 80),
    hidden=st.integers(1, 128).map(lambda n: 64 * n),
    intermediate=st.integers(1, 512).map(lambda n: 64 * n),
    vocab=st.integers(100, 300_000),
    heads=st.integers(1, 64),
    kv_heads=st.integers(1, 16),
    head_dim=st.sampled_from([32, 64, 128]),
    tied=st.booleans(),
    qk_norm=st.booleans(),
)
regimes = st.builds(
    Regime,
    **{name: st.sampled_from(words) for name, words in WORDS.items() if name != "mode"},
    mode=st.sampled_from(["full", "lora"]),
    shards=st.integers(1, 8),
    lora_rank=st.integers(1, 128),
    engine_bytes=st.integers(0, 20 * GIB),
) | st.builds(Regime, mode=st.just("qlora"))
memories = st.integers(1, 200 * GIB)


def predicted_and_tracked(name, layers, tokens, *, dtype, mode, checkpointing, trained=None):
    if mode == "lora":
        pytest.importorskip("peft")
    settings = config(name, layers)
    regime = Regime(mode=mode, dtype=dtype, checkpointing=checkpointing, head_bytes=SMALL_CHUNKS)
    found = footprint(shape_of(settings), regime, tokens, trained)
    tracked = peak(
        settings,
        tokens,
        trained=trained,
        dtype=getattr(torch, dtype),
        lora_rank=0 if mode == "full" else regime.lora_rank,
        checkpointing=checkpointing == "layers",
    )
    return found, tracked


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACKED)
@pytest.mark.parametrize("mode", ["full", "lora"])
@pytest.mark.parametrize("checkpointing", ["none", "layers"])
def test_the_prediction_is_near_what_a_tracker_counts(name, mode, checkpointing):
    found, tracked = predicted_and_tracked(
        name, 2, 4096, dtype="bfloat16", mode=mode, checkpointing=checkpointing
    )
    assert 0.95 * tracked <= found.total <= 1.10 * tracked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "mode", "checkpointing"),
    [
        ("bfloat16", "full", "none"),
        ("bfloat16", "lora", "none"),
        ("bfloat16", "lora", "layers"),
        ("float32", "full", "layers"),
        ("float32", "lora", "none"),
    ],
)
def test_a_layer_more_costs_what_is_predicted(dtype, mode, checkpointing):
    counts = [
        predicted_and_tracked(
            "qwen3-0.6b", layers, 16384, dtype=dtype, mode=mode, checkpointing=checkpointing
        )
        for layers in (2, 3)
    ]
    (few, few_tracked), (more, more_tracked) = counts
    growth, tracked = more.total - few.total, more_tracked - few_tracked
    assert 0.95 * tracked <= growth <= 1.10 * tracked


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["full", "lora"])
def test_few_trained_tokens_of_many_are_predicted_too(mode):
    found, tracked = predicted_and_tracked(
        "smollm2-135m", 2, 16384, dtype="bfloat16", mode=mode, checkpointing="layers", trained=512
    )
    assert 0.95 * tracked <= found.total <= 1.10 * tracked


def test_a_small_vocabulary_is_predicted_too():
    settings = config("smollm2-135m", 2) | {"vocab_size": 1000}
    regime = Regime(head_bytes=SMALL_CHUNKS)
    found = footprint(shape_of(settings), regime, 8192)
    assert 0.95 <= found.total / peak(settings, 8192, checkpointing=True) <= 1.10


@pytest.mark.parametrize(("name", "tokens", "gib", "regime"), PUBLISHED)
def test_compiled_kernels_take_what_was_published(name, tokens, gib, regime):
    # The plain heads of those tables do not chunk; all else is the same.
    regime = replace(regime, dtype="mixed", kernels="compiled")
    assert footprint(shape(name), regime, tokens).total / GIB == pytest.approx(gib, rel=0.12)


@pytest.mark.parametrize(("tokens", "gib"), [(16384, 12.5), (65536, 19.6)])
def test_a_bfloat16_copy_beside_its_masters_is_near_the_same(tokens, gib):
    found = footprint(shape("qwen3-0.6b"), Regime(kernels="compiled"), tokens)
    assert found.total / GIB == pytest.approx(gib, rel=0.12)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-3b", 3_085_938_688),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-8b", 8_190_735_360),
        ("smollm2-135m", 134_515_008),
        ("llama-3.2-1b", 1_235_814_400),
    ],
)
def test_parameters_are_counted_to_the_last(name, parameters):
    assert shape(name).parameters == parameters


def test_states_are_bytes_a_parameter():
    model = shape("qwen3-0.6b")

    def per_parameter(**settings):
        return Regime(**settings).states(model) / model.parameters

    assert per_parameter() == pytest.approx(18)
    assert per_parameter(dtype="float32") == pytest.approx(16)
    assert per_parameter(dtype="mixed") == pytest.approx(16)
    assert per_parameter(shards=8) == pytest.approx(2)
    assert per_parameter(optimizer="adamw8bit") == pytest.approx(12.03, abs=0.01)
    assert per_parameter(optimizer="offloaded") == pytest.approx(10)
    adapter = 16 * model.adapter(16)
    assert Regime(mode="lora").states(model) == 2 * model.parameters + adapter


def test_a_mode_that_changes_activations_changes_the_prediction():
    model = shape("qwen2.5-3b")
    plain = footprint(model, Regime(), 16384)
    without = footprint(model, Regime(checkpointing="none"), 16384)
    offloaded = footprint(model, Regime(checkpointing="offload"), 16384)
    assert without.activations > 10 * plain.activations
    assert offloaded.activations < plain.activations
    assert footprint(model, Regime(kernels="compiled"), 16384).activations != plain.activations
    assert footprint(model, Regime(mode="lora"), 16384).activations != plain.activations


def test_a_chunked_head_is_bounded_whatever_the_tokens():
    model = shape("qwen2.5-0.5b")
    chunked = [footprint(model, Regime(), n).head for n in (1000, 100_000)]
    whole = [footprint(model, Regime(head="whole"), n).head for n in (1000, 100_000)]
    bound = 8 * model.vocab * (GIB // (10 * model.vocab)) + 6 * model.embedding
    assert all(head <= bound + 100_000 * (80 + 4 * model.hidden) for head in chunked)
    assert whole[1] > 90 * whole[0]


def test_the_cap_does_not_know_the_longest_context_of_the_model():
    caps = {
        most_tokens(
            shape_of(config("qwen3-4b") | {"max_position_embeddings": n}), Regime(), 141 * GIB
        )
        for n in (16, 40960, 1 << 20)
    }
    assert len(caps) == 1
    assert min(caps) > 40960


@given(shapes, regimes, st.integers(1, 500_000))
def test_more_tokens_never_take_less(model, regime, tokens):
    assert footprint(model, regime, tokens).total <= footprint(model, regime, tokens + 1).total


@given(shapes, regimes, st.integers(1, 500_000))
def test_more_layers_never_take_less(model, regime, tokens):
    deeper = replace(model, layers=model.layers + 1)
    assert footprint(model, regime, tokens).total <= footprint(deeper, regime, tokens).total


@given(shapes, regimes, st.integers(1, 500_000), st.integers(0, 500_000))
def test_trained_tokens_are_among_all_and_never_take_less(model, regime, tokens, fewer):
    trained = max(0, tokens - fewer)
    part = footprint(model, regime, tokens, trained).total
    assert part <= footprint(model, regime, tokens).total


@given(shapes, regimes, memories)
def test_the_cap_is_the_largest_that_fits_with_the_margin(model, regime, memory):
    most = most_tokens(model, regime, memory)
    left = memory - regime.engine_bytes
    assert most == 0 or need(footprint(model, regime, most).total) <= left
    assert need(footprint(model, regime, most + 1).total) > left


@given(shapes, regimes, st.integers(1, 300_000))
def test_the_cap_of_a_footprint_is_its_tokens(model, regime, tokens):
    exactly = need(footprint(model, regime, tokens).total) + regime.engine_bytes
    most = most_tokens(model, regime, exactly)
    assert most >= tokens
    assert need(footprint(model, regime, most).total) + regime.engine_bytes <= exactly


@given(shapes, regimes, memories, st.integers(1, 200_000))
def test_every_rung_of_the_ladder_really_fits(model, regime, memory, tokens):
    for rung in ladder(model, regime, memory, tokens):
        assert rung.tokens >= tokens
        assert rung.tokens == most_tokens(model, rung.regime, memory)
        assert rung.regime != regime
        assert need(footprint(model, rung.regime, tokens).total) <= memory


def test_where_no_single_change_suffices_the_first_sum_that_does_is_named():
    (rung,) = ladder(shape("qwen3-8b"), Regime(checkpointing="none"), 12 * GIB, 4096)
    assert "--mode qlora" in rung.change
    assert rung.change.count("--") > 1
    (rung,) = ladder(shape("qwen3-8b"), Regime(mode="lora"), 10 * GIB, 4096)
    assert rung.change == "--optimizer offloaded --checkpointing offload --mode qlora"


def test_a_change_that_is_made_already_is_no_rung():
    regime = Regime(mode="qlora", optimizer="offloaded", checkpointing="offload")
    assert [words for words, change in CHANGES if change(regime) != regime] == []
    assert ladder(shape("qwen3-8b"), regime, 4 * GIB, 1) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "qwen3_moe", "num_experts": 128}, "mixture of experts"),
        ({"num_local_experts": 8}, "mixture of experts"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "hybrid"),
        ({"vision_config": {}}, "images"),
        ({"is_encoder_decoder": True}, "encoder"),
        ({"model_type": "gemma3_text"}, "architecture whose memory is not known"),
        ({"model_type": "lama"}, "Did you mean llama"),
        ({"model_type": None}, "no model_type"),
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "896"}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"vocab_size": True}, "vocab_size"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_words(changes, words):
    with pytest.raises(UsageError, match=words) as caught:
        shape_of(config("qwen2.5-0.5b") | changes)
    assert "\n" not in str(caught.value)


def test_what_a_config_leaves_out_is_what_transformers_takes():
    short = config("smollm2-135m")
    del short["num_key_value_heads"], short["tie_word_embeddings"]
    found = shape_of(short)
    assert (found.kv_heads, found.head_dim, found.tied) == (9, 64, False)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_widths_are_positive(path):
    token = widths(shape(path.stem), Regime())
    assert min(token.kept, token.working, token.final) > 0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80", 80 * GIB),
        ("80GiB", 80 * GIB),
        ("80 gib", 80 * GIB),
        (" 80G ", 80 * GIB),
        ("80GB", 80 * 10**9),
        ("16000MiB", 16000 << 20),
        ("0.5TiB", 512 * GIB),
        ("1024B", 1024),
    ],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "80 GBs", "-80", "1e3GB", "0", "0.0000000001KB", "٨"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="--memory"):
        parse_size(text)


@given(st.integers(1, 10**15))
def test_bytes_are_exact(size):
    assert parse_size(f"{size}B") == size


@pytest.mark.parametrize(
    "settings", [{"mode": "ful"}, {"shards": 0}, {"lora_rank": 0}, {"mode": "qlora", "shards": 2}]
)
def test_an_impossible_regime_is_refused(settings):
    with pytest.raises(UsageError, match="--"):
        Regime(**settings)
