"""`python -m agentrl.tiny`: rebuild the embedded policy from nothing.

In    a folder, a seed
Out   weights, config, tokenizer and template, and provenance.json: how they came about
Not   fast: most of an hour on two quiet cores
"""

from __future__ import annotations

import argparse
import copy
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
from agentrl.tiny import FOLDER, arithmetic, programs
from agentrl.tiny.demonstrations import Subject
from agentrl.tiny.lessons import Batch, Classroom, copies, lessons
from agentrl.tiny.measure import shares
from agentrl.tiny.model import new_model
from agentrl.tiny.teaching import PHASES, Phase, teach
from agentrl.tiny.tokenizer import train_tokenizer
from agentrl.version import __version__

SUBJECTS = (arithmetic.SUBJECT, programs.SUBJECT)
TRANSCRIPTS = 3000
"""Demonstrations of each subject that the tokenizer's words are learned from."""
READING = 3
"""Part of the seed of those demonstrations."""
RECORD = "provenance.json"
HELD_OUT = 200
"""Test problems of each that the finished policy is measured on."""


def main(argv: list[str] | None = None) -> None:
    """Build the policy and write its folder."""
    parser = argparse.ArgumentParser(prog="python -m agentrl.tiny", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and habits")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the steps to take; for trials"
    )
    parser.add_argument(
        "--go-on", action="store_true", help="begin after the last phase that the folder has seen"
    )
    args = parser.parse_args(argv)
    build(args.out, args.seed, args.scale, args.go_on)


def build(
    out: Path,
    seed: int,
    scale: float = 1.0,
    go_on: bool = False,
    phases: Sequence[Phase] = PHASES,
) -> None:
    """Teach a policy and write its folder; after each phase too, to go on from there."""
    begin = time.monotonic()
    rooms, data = school(seed)
    tokenizer = rooms[0].tokenizer
    model, record = new_model(tokenizer, seed), provenance(tokenizer, seed, scale, data)
    if go_on:
        model, record = LlamaForCausalLM.from_pretrained(out).float().train(), _read(out)
        stops = record.get("gone_on_after", [])
        record["gone_on_after"] = [*stops, record["phases"][-1]["name"]]
    earlier = record.get("minutes", 0.0)
    record["parameters"] = model.num_parameters()
    for i in range(len(record["phases"]), len(phases)):
        phase = replace(phases[i], steps=max(1, round(phases[i].steps * scale)))
        loss = teach(model, phase, _batches(rooms, phase, [seed, i]), say)
        record["phases"].append({**asdict(phase), "loss": round(loss, 4)})
        record["minutes"] = round(earlier + (time.monotonic() - begin) / 60, 1)
        round_off(model)
        write(out, copy.deepcopy(model).bfloat16(), tokenizer)
        _write(out, record)
    record["held_out"] = held_out(model.eval(), rooms, max(1, round(HELD_OUT * scale)))
    say(_write(out, record))


def school(seed: int) -> tuple[list[Classroom], str]:
    """A classroom for each subject, with one tokenizer for all; a hash of the texts."""
    rooms = [_classroom(subject) for subject in SUBJECTS]
    rng = np.random.default_rng([seed, READING])
    habits = PHASES[-1].habits or {}
    texts = [room.demonstrate(i, habits, rng) for room in rooms for i in range(TRANSCRIPTS)]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    tokenizer = train_tokenizer(texts)
    return [replace(room, tokenizer=tokenizer) for room in rooms], digest


def _classroom(subject: Subject) -> Classroom:
    """The environment's words, tools and train problems; a tokenizer that knows letters."""
    env = make(subject.env)
    return Classroom(
        subject,
        train_tokenizer(()),
        env.system_prompt,
        env.tool_schemas(),
        env.task_source("train"),
    )


@torch.no_grad()
def round_off(model: LlamaForCausalLM) -> None:
    """Make the parameters what will be on disk: what comes next begins there, now or later.

    The model itself stays in float32: its rotary frequencies are no parameters, and are never
    read from disk.
    """
    for parameter in model.parameters():
        parameter.copy_(parameter.bfloat16())


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
    tokenizer: PreTrainedTokenizerFast, seed: int, scale: float, data: str
) -> dict[str, Any]:
    """How the policy is taught; no phase yet."""
    return {
        "command": "python -m agentrl.tiny",
        "subjects": [subject.env for subject in SUBJECTS],
        "vocabulary": len(tokenizer),
        "seed": seed,
        "scale": scale,
        "data_sha256": data,
        "threads": torch.get_num_threads(),
        "versions": {
            "agentrl": __version__,
            "tokenizers": tokenizers.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "phases": [],
    }


def _read(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / RECORD).read_text(encoding="utf-8")))


def _write(folder: Path, record: Mapping[str, Any]) -> str:
    text = json.dumps(record, indent=2) + "\n"
    (folder / RECORD).write_text(text, encoding="utf-8")
    return text


def held_out(
    model: LlamaForCausalLM, rooms: Sequence[Classroom], count: int
) -> dict[str, dict[str, Any]]:
    """What the policy does with test problems of each subject, as it is written to disk."""
    found = {}
    for room in rooms:
        source = make(room.subject.env).task_source("test")
        tasks = [source[i] for i in range(count)]
        found[room.subject.env] = {
            "problems": count,
            "sampled": shares(model, room, tasks, temperature=1.0),
            "greedy": shares(model, room, tasks, temperature=0.0),
        }
    return found


def say(line: str) -> None:
    """Show a line of progress at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _batches(
    rooms: Sequence[Classroom], phase: Phase, seed: Sequence[int]
) -> Iterator[Sequence[Batch]]:
    if phase.habits is None:
        return zip(copies(rooms[0].tokenizer, phase.rows[0], seed))
    taught = [
        lessons(room, phase.habits, rows, [*seed, i])
        for i, (room, rows) in enumerate(zip(rooms, phase.rows, strict=True))
    ]
    return zip(*taught, strict=True)


if __name__ == "__main__":
    main()
