"""The tiny policy's architecture: a Llama of about a million parameters.

In    a tokenizer, a seed
Out   a model with random weights
Not   a serious language model: it is the smallest that copies digits well
"""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from agentrl.tiny.tokenizer import MAX_POSITIONS

WIDTH, LAYERS, HEAD = 128, 4, 32
"""A head of 32 is the smallest that vLLM runs on a CPU."""


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """Random weights; the same for the same seed."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // HEAD,
        num_key_value_heads=WIDTH // HEAD,
        head_dim=HEAD,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        # Of 1/sqrt(width): the usual 0.02 is made for wide models and starts slower here.
        initializer_range=0.08,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)
