"""One random model on a device, its learner, and what `gpu.py` asks of them.

In    a public shape, how it is trained, a scale of lengths
Out   rows of tables, one a question
Not   a model that has learnt anything: time and memory do not depend on values
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from trajectories import rollouts

from agentrl import adapter
from agentrl.head import CHUNK_BYTES, score
from agentrl.memory import Regime, Shape, footprint, most_tokens, shape_of
from agentrl.meter import Meter, gauge_of
from agentrl.oom import free
from agentrl.plan import plan
from agentrl.recompute import recomputing
from agentrl.rowwise import KERNELS
from agentrl.sample import Sample
from agentrl.selection import select
from agentrl.update import Learner, UpdateReport

GIB = 2**30
N, M = 32, 8
TRAINED = 0.4
"""Of the tokens of made-up rows."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A model's shape, and how it is trained."""

    name: str
    config: dict[str, Any]
    """As in its config.json."""
    rank: int = 0
    """Of adapters; 0: all weights are trained."""

    @property
    def shape(self) -> Shape:
        """Sizes."""
        return shape_of(self.config)

    def regime(self, device: torch.device, **options: Any) -> Regime:
        """How the learner trains it here."""
        rank = {"lora_rank": self.rank} if self.rank else {}
        mode, chunk = "lora" if self.rank else "full", CHUNK_BYTES[device.type]
        return Regime(mode=mode, head_bytes=chunk, **rank, **options)


def _qwen(kind: str, sizes: Sequence[int], **options: Any) -> dict[str, Any]:
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    names += ("num_key_value_heads", "vocab_size")  # type: ignore[assignment]
    sizes_of = dict(zip(names, sizes, strict=True))
    return {"model_type": kind, "max_position_embeddings": 1 << 17, **sizes_of, **options}


LARGE = (
    Kind("0.5B full", _qwen("qwen2", (896, 4864, 24, 14, 2, 151936), tie_word_embeddings=True)),
    Kind(
        "4B full",
        _qwen("qwen3", (2560, 9728, 36, 32, 8, 151936), head_dim=128, tie_word_embeddings=True),
    ),
    Kind(
        "8B LoRA",
        _qwen("qwen3", (4096, 12288, 36, 32, 8, 151936), head_dim=128, tie_word_embeddings=False),
        rank=16,
    ),
)
SMALL = (
    Kind("tied full", _qwen("qwen2", (64, 128, 2, 4, 2, 512), tie_word_embeddings=True)),
    Kind(
        "untied LoRA",
        _qwen("qwen3", (64, 128, 2, 4, 2, 512), head_dim=16, tie_word_embeddings=False),
        rank=4,
    ),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How large everything is."""

    kinds: tuple[Kind, ...]
    tokens: tuple[int, ...]
    """Of a micro-batch."""
    row: int
    """Longest row."""
    median: int
    """Of the rows of a group."""


SCALES = {
    "large": Scale(LARGE, (4096, 16384, 65536), row=8192, median=1024),
    "small": Scale(SMALL, (128, 256, 512), row=128, median=32),
}


class Bench:
    """One model on the device, its learner, and what is asked of them."""

    def __init__(self, kind: Kind, scale: Scale, device: torch.device) -> None:
        """Make random weights on the device."""
        self.kind = kind
        self.scale = scale
        self.device = device
        options = {k: v for k, v in kind.config.items() if k != "model_type"}
        config = transformers.AutoConfig.for_model(kind.config["model_type"], **options)
        with torch.device(device), torch.random.fork_rng(devices=_indices(device)):
            torch.manual_seed(0)
            self.model = transformers.AutoModelForCausalLM.from_config(
                config, dtype=torch.bfloat16
            ).eval()
        if kind.rank:
            adapter.add(self.model, kind.rank, 2.0 * kind.rank)
        # At rate 0 weights stay, so that steps can be compared.
        self.learner = Learner(self.model, lr=0.0, checkpointing="layers")
        drawn = rollouts(np.random.default_rng(0), N, scale.median, kind.shape.vocab)
        kept = select(drawn.rewards, drawn.lengths, m=M, seed=0).indices
        self.groups = {N: list(drawn.samples), M: list(drawn.only(list(kept)).samples)}

    def made(self) -> dict[str, Any]:
        """What is there."""
        shape = self.kind.shape
        query = torch.zeros(
            1, shape.heads, 4, shape.head_dim, dtype=torch.bfloat16, device=self.device
        )
        kernel = next(k.name for k in KERNELS if k.takes(query, query[:, : shape.kv_heads]))
        return {
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "predicted": shape.parameters
            + (shape.adapter(self.kind.rank) if self.kind.rank else 0),
            "kernel": kernel,
            "packed": not self.learner.padded_because,
            "note": self.learner.padded_because or None,
        }

    @torch.no_grad()
    def numerics(self) -> dict[str, Any]:
        """Log-probs packed, alone, and alone in float32."""
        rng = np.random.default_rng(1)
        lengths = [self.scale.row // divisor for divisor in (1, 2, 3, 5, 8, 8)]
        rows = [rng.integers(3, self.kind.shape.vocab, n) for n in lengths]
        packed = self._logprobs(self.model, rows, together=True)
        alone = self._logprobs(self.model, rows)
        exact = self._logprobs(copy.deepcopy(self.model).float(), rows)
        gap, rounding = (alone - packed).abs(), (alone - exact).abs()
        return {
            "tokens": len(alone),
            "packed - alone": gap.mean().item(),
            "largest": gap.max().item(),
            "alone - float32": rounding.mean().item(),
            "packed - float32": (packed - exact).abs().mean().item(),
            "as exact": gap.mean().item() <= 2 * rounding.mean().item() + 1e-6,
        }

    def peak(self, tokens: int) -> dict[str, Any]:
        """Two full micro-batches, so that gradients are there while activations are."""
        length = min(tokens, self.scale.row)
        rows = [self._row(length, seed) for seed in range(2 * tokens // length)]
        self._step(rows[:2], tokens)
        free()
        report, seconds = self._step(rows, tokens)
        real = self._real(report.peak_bytes)
        regime, trained = self.kind.regime(self.device), report.trained_tokens // 2
        predicted = footprint(self.kind.shape, regime, tokens, trained=trained).total
        return {
            "predicted GiB": predicted / GIB,
            "real GiB": real,
            "off by": predicted / GIB / real - 1 if real else None,
            "reserved GiB": torch.cuda.memory_reserved() / GIB if real else None,
            "seconds": seconds,
            "tokens/s": report.tokens / seconds,
            "fit": self._fit(),
            "retries": report.oom_retries,
        }

    def step(self, rows: int) -> dict[str, Any]:
        """Our own: packed under the plan's cap, unscored positions left out."""
        samples = self.groups[rows]
        cap = min(max(self.scale.tokens), self._fit())
        self._step(samples, cap)
        report, seconds = self._step(samples, cap)
        return {
            "tokens": report.tokens_padded,
            "micro-batches": report.micro_batches,
            "seconds": seconds,
            "peak GiB": self._real(report.peak_bytes),
            "retries": report.oom_retries,
        }

    def padded(self) -> dict[str, Any]:
        """Rows padded to the longest beside them, logits everywhere, their log-softmax."""
        samples = self.groups[N]
        lengths = [len(s.input_ids) for s in samples]
        cap = min(max(self.scale.tokens), self._fit(head="whole"))
        if max(lengths) > cap:
            return {"note": f"predicted not to fit: rows of {max(lengths)}, room for {cap}"}
        (batches,) = plan(lengths, cap, packed=False)
        meter = Meter(gauge_of(self.device))
        with recomputing(self.model):
            for _ in range(2):
                meter.begin()
                began = self._now()
                for batch in batches:
                    _plain_backward(self.model, [samples[row] for row in batch.rows])
                seconds = self._now() - began
                self.model.zero_grad()
        return {
            "tokens": sum(batch.tokens for batch in batches),
            "micro-batches": len(batches),
            "seconds": seconds,
            "peak GiB": self._real(meter.peak()),
            "retries": None,
        }

    def retry(self) -> dict[str, Any]:
        """One step with enough memory, and one with about half of what its activations took."""
        tokens = max(self.scale.tokens)
        length = min(tokens, self.scale.row)
        rows = [self._row(length, seed) for seed in range(tokens // length)]
        enough, first = self._step(rows, tokens)
        free()
        with _scarce(self.model, self.device, enough.peak_bytes, tokens // 2):
            scarce, second = self._step(rows, tokens)
        assert enough.loss is not None
        assert scarce.loss is not None
        return {
            "tokens": tokens,
            "retries": scarce.oom_retries,
            "cap then": scarce.cap,
            "loss off by": abs(scarce.loss - enough.loss),
            "gradient off by": abs((scarce.grad_norm or 0) / (enough.grad_norm or 1) - 1),
            "seconds": second,
            "with enough": first,
        }

    def _real(self, peak: int) -> float | None:
        """GiB; None where a device does not tell the peak of a part."""
        return peak / GIB if gauge_of(self.device).exact else None

    def _fit(self, **options: Any) -> int:
        """Most tokens of a micro-batch that the plan would allow here."""
        regime = self.kind.regime(self.device, **options)
        return most_tokens(self.kind.shape, regime, _memory(self.device))

    def _step(self, samples: Sequence[Sample], cap: int) -> tuple[UpdateReport, float]:
        self.learner.cap = cap
        began = self._now()
        report = self.learner.step(samples, kept=len(samples))
        return report, self._now() - began

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _row(self, length: int, seed: int) -> Sample:
        rng = np.random.default_rng(seed)
        mask = (rng.random(length) < TRAINED).astype(int).tolist()
        ids = rng.integers(3, self.kind.shape.vocab, length).tolist()
        return Sample(tuple(ids), (0, *mask[1:]), (float("nan"),) * length, 1.0 if seed % 2 else -1)

    def _logprobs(self, model: Any, rows: Sequence[Any], *, together: bool = False) -> torch.Tensor:
        """Of every token but the first of a row."""
        batches = [rows] if together else [[row] for row in rows]
        found = []
        for batch in batches:
            lengths = tuple(len(row) for row in batch)
            ids = torch.tensor(np.concatenate(batch), device=self.device)
            at = np.delete(np.arange(len(ids)), np.cumsum([0, *lengths[:-1]]))
            places = torch.tensor(at, device=self.device)
            packed = {"lengths": lengths} if together else {}
            found.append(score(model, ids[None], places - 1, ids[places], **packed).logprobs)
        return torch.cat(found)


def _plain_backward(model: Any, samples: Sequence[Sample]) -> None:
    longest = max(len(s.input_ids) for s in samples)
    ids = torch.zeros(len(samples), longest, dtype=torch.long)
    weights = torch.zeros(len(samples), longest)
    for row, s in enumerate(samples):
        ids[row, : len(s.input_ids)] = torch.tensor(s.input_ids)
        weights[row, : len(s.input_ids)] = s.advantage * torch.tensor(s.loss_mask)
    ids, weights = ids.to(model.device), weights.to(model.device)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    logprobs = logits.log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
    (-(logprobs * weights[:, 1:]).sum() / weights.abs().sum()).backward()


@contextmanager
def _scarce(model: Any, device: torch.device, peak: int, tokens: int) -> Iterator[None]:
    """Too little memory for the last step; on a CPU more than `tokens` at once are refused."""
    if device.type == "cuda":
        held = torch.cuda.memory_allocated()
        torch.cuda.set_per_process_memory_fraction((held + peak) / 2 / _memory(device))
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return

    def refuse(_: Any, args: Any, options: dict[str, Any]) -> None:
        if options["input_ids"].numel() > tokens:
            raise torch.OutOfMemoryError("out of memory, as the benchmark wants it")

    hook = model.get_decoder().register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _indices(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []
