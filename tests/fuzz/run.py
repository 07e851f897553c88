"""Fuzz one target, or all of them, each in a process of its own.

    python tests/fuzz/run.py TARGET|all [--bytes 10000000] [--engine auto|atheris|random]
                             [--seed 1] [--findings DIR]

atheris     guided by the lines that an input reaches; Linux on x86-64
random      seeded mutations of the same corpus, guided by nothing; everywhere
auto        atheris where it is installed

Counted are the bytes of every input that the target was called with, and of no other. The first
input that raises ends the process with another status than 0; atheris keeps it in DIR. Last
line: JSON with target, engine, bytes, inputs, distinct inputs and seconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SLOWEST = 60
"""Seconds after which atheris calls one input a hang."""
FORMATS = (
    *("hermes", "qwen3_coder", "llama3_json", "mistral", "mistral_args", "deepseek_v3"),
    *("deepseek_v31", "harmony"),
)
NAMES = ("calculator", "grading", "protocol", *FORMATS)


class Counter:
    """Calls a target, and counts what it was given."""

    def __init__(self, target: Any, most: int) -> None:
        self.target, self.most = target, most
        self.bytes = self.inputs = 0
        self.seen: set[int] = set()

    def __call__(self, data: bytes) -> None:
        """One input."""
        self.target.run(data)
        self.bytes += len(data)
        self.inputs += 1
        self.seen.add(hash(data))

    @property
    def done(self) -> bool:
        """Whether enough bytes went through."""
        return self.bytes >= self.most


def report(counter: Counter, name: str, engine: str) -> None:
    """One line of JSON."""
    line = {
        "target": name,
        "engine": engine,
        "bytes": counter.bytes,
        "inputs": counter.inputs,
        "distinct": len(counter.seen),
        "cpu": round(time.process_time(), 1),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def by_chance(name: str, most: int, seed: int) -> None:
    """Seeded mutations until enough bytes went through."""
    from targets import TARGETS

    target = TARGETS[name]
    counter, rng = Counter(target, most), random.Random(seed)
    for data in target.seeds:
        counter(data)
    while not counter.done:
        counter(mutated(target, rng))
    report(counter, name, "random")


def mutated(target: Any, rng: random.Random) -> bytes:
    """A few seeds, words and bytes, cut and put together."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(1 + target.longest))
    data = bytearray(rng.choice(target.seeds))
    for _ in range(rng.randrange(1, 20)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.randrange(8))
        data[at:end] = rng.choice(
            (
                rng.choice(target.words),
                rng.choice(target.words) * rng.randrange(1, 60),
                rng.randbytes(rng.randrange(4)),
                rng.choice(target.seeds)[: rng.randrange(200)],
                b"",
            )
        )
    return bytes(data[: target.longest])


def by_coverage(name: str, most: int, seed: int, findings: str) -> None:
    """Libfuzzer's mutations, guided by coverage, until enough bytes went through."""
    import atheris

    with atheris.instrument_imports(include=["agentrl", "agentrl_tools"]):
        from targets import TARGETS
    target = TARGETS[name]
    counter = Counter(target, most)
    folder = tempfile.TemporaryDirectory()

    def one(data: bytes) -> None:
        counter(data)
        if counter.done:
            # Libfuzzer has no way back to here.
            report(counter, name, "atheris")
            folder.cleanup()
            os._exit(0)

    corpus, words = Path(folder.name) / "corpus", Path(folder.name) / "words"
    corpus.mkdir()
    for place, data in enumerate(target.seeds):
        (corpus / str(place)).write_bytes(data)
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    options = (
        f"-seed={seed}",
        f"-max_len={target.longest}",
        "-len_control=0",
        f"-timeout={SLOWEST}",
        f"-artifact_prefix={findings}/",
        f"-dict={words}",
        "-verbosity=0",
        str(corpus),
    )
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def main() -> int:
    """Fuzz, and say how much."""
    parser = argparse.ArgumentParser(description="Fuzz what reads a policy's text.")
    parser.add_argument("target", choices=(*NAMES, "all"))
    parser.add_argument("--bytes", type=int, default=10_000_000, help="through each target")
    parser.add_argument("--engine", choices=("auto", "atheris", "random"), default="auto")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", default=".", help="where atheris keeps an input that raised")
    args = parser.parse_args()
    if args.target == "all":
        own = [sys.executable, __file__]
        calls = [[*own, name, *sys.argv[1:]] for name in NAMES]
        return max(subprocess.call([w for w in call if w != "all"]) for call in calls)
    sys.path[:0] = [str(ROOT), str(ROOT / "environments"), str(ROOT / "tools")]
    guided = args.engine == "atheris" or (args.engine == "auto" and find_spec("atheris"))
    if guided:
        by_coverage(args.target, args.bytes, args.seed, args.findings)
    else:
        by_chance(args.target, args.bytes, args.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
