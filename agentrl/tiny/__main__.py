"""`python -m agentrl.tiny`: rebuild the embedded policy from nothing.

In    a folder, a seed
Out   weights, config, tokenizer and template, and provenance.json: how they came about
Not   fast: about half an hour on two quiet cores
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from transformers import GenerationConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

from agentrl.registry import make
from agentrl.tiny import FOLDER
from agentrl.tiny.demonstrations import demonstrate
from agentrl.tiny.lessons import Batch, Classroom, copies, lessons
from agentrl.tiny.measure import shares
from agentrl.tiny.model import new_model
from agentrl.tiny.teaching import PHASES, Phase, teach
from agentrl.tiny.tokenizer import train_tokenizer
from agentrl.version import __version__

TRANSCRIPTS = 4000
"""Demonstrations that the tokenizer's words are learned from."""
HELD_OUT = 500
"""Test problems that the finished policy is measured on."""


def main(argv: list[str] | None = None) -> None:
    """Build the policy and write its folder."""
    parser = argparse.ArgumentParser(prog="python -m agentrl.tiny", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and habits")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the steps to take; for trials"
    )
    args = parser.parse_args(argv)
    build(args.out, args.seed, args.scale)


def build(out: Path, seed: int, scale: float = 1.0) -> None:
    """Teach a policy and write its folder."""
    begin = time.monotonic()
    room, data = classroom(seed)
    model = new_model(room.tokenizer, seed)
    phases = [replace(p, steps=max(1, round(p.steps * scale))) for p in PHASES]
    losses = {
        p.name: teach(model, p, _batches(room, p, [seed, i]), say) for i, p in enumerate(phases)
    }
    write(out, model.bfloat16(), room.tokenizer)
    record = provenance(room, phases, losses)
    record |= {"parameters": model.num_parameters(), "seed": seed, "scale": scale}
    record["data_sha256"] = data
    record["held_out"] = held_out(model.float().eval(), room, max(1, round(HELD_OUT * scale)))
    record["minutes"] = round((time.monotonic() - begin) / 60, 1)
    text = json.dumps(record, indent=2) + "\n"
    (out / "provenance.json").write_text(text, encoding="utf-8")
    say(text)


def classroom(seed: int) -> tuple[Classroom, str]:
    """The environment's words, tools and train problems; the tokenizer; a hash of the texts."""
    env = make("tool_math")
    room = Classroom(
        train_tokenizer(()), env.system_prompt, env.tool_schemas(), env.task_source("train")
    )
    rng = np.random.default_rng([seed, len(PHASES)])
    habits = PHASES[-1].habits or {}
    texts = [
        room.text(demonstrate(room.tasks[i], room.system, habits, rng)) for i in range(TRANSCRIPTS)
    ]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return replace(room, tokenizer=train_tokenizer(texts)), digest


def write(out: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Weights, config, tokenizer and template."""
    logging.disable_progress_bar()
    out.mkdir(parents=True, exist_ok=True)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def provenance(
    room: Classroom, phases: Sequence[Phase], losses: Mapping[str, float]
) -> dict[str, Any]:
    """How the policy was taught."""
    return {
        "command": "python -m agentrl.tiny",
        "vocabulary": len(room.tokenizer),
        "phases": [{**asdict(p), "loss": round(losses[p.name], 4)} for p in phases],
        "threads": torch.get_num_threads(),
        "versions": {
            "agentrl": __version__,
            "tokenizers": tokenizers.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }


def held_out(model: LlamaForCausalLM, room: Classroom, count: int) -> dict[str, Any]:
    """What the policy does with test problems, as it is written to disk."""
    source = make("tool_math").task_source("test")
    tasks = [source[i] for i in range(count)]
    return {
        "problems": count,
        "sampled": shares(model, room, tasks, temperature=1.0),
        "greedy": shares(model, room, tasks, temperature=0.0),
    }


def say(line: str) -> None:
    """Show a line of progress at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _batches(room: Classroom, phase: Phase, seed: Sequence[int]) -> Iterator[Batch]:
    if phase.habits is None:
        return copies(room, phase.rows, seed)
    return lessons(room, phase.habits, phase.rows, seed)


if __name__ == "__main__":
    main()
