"""Small random models for tests, made in place from a config."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 97


def llama(seed: int = 0, *, tied: bool = False, **options: Any) -> LlamaForCausalLM:
    """Two layers with logits far enough from zero to tell distributions apart."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        initializer_range=0.1,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=None,
        **options,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()
