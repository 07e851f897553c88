"""The update on one large GPU: what it takes, against what was predicted; at most 8 minutes.

    PYTHONPATH=. python benchmarks/gpu.py [--seconds 440] [--small]

Needs numpy, torch, transformers and peft, and no weights: models have public shapes (a 0.5B and a
4B fully trained, an 8B with adapters) and random bfloat16 values, made on the device. Layers are
recomputed. Of each model, smallest first:

kernel    the attention that packed rows get
numerics  log-probs of packed rows and of the same rows alone, in bfloat16, and how far those are
          from float32 (the 0.5B only): packing must not cost more than rounding does
peak      predicted and real peak bytes of a step of two full micro-batches, optimizer included, at
          three lengths; `fit` is what the plan would allow on this device
step      seconds and peak of one step: n = m = 32, m = 8 of 32, and what a plain implementation
          does with the same 32 rows: padded to the longest, logits of all positions, where that is
          predicted to fit (forward and backward alone: no float32 gradients, no optimizer)
retry     the smallest model again with too little memory: retries, and how far loss and gradient
          are from the step that had enough

A part that fails is a row that says so, and one that there is no time left for says that. Near the
end a watchdog prints what there is. Last line: JSON. --small: the same code on small shapes, also
on a CPU, which does not tell peaks, and where too little memory is made up.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import transformers
from on_device import SCALES, Bench, Kind, M, N, Scale
from tables import machine, show

from agentrl.oom import free

LEAST = {"made": 20.0, "numerics": 5.0, "peak": 15.0, "step": 15.0, "retry": 15.0}
"""Seconds that must be left for a part to begin."""


@dataclass
class Findings:
    """Rows of all tables, and the time that is left to add some."""

    ends: float
    """On the monotonic clock."""
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    printed: threading.Event = field(default_factory=threading.Event)

    def part(self, table: str, work: Callable[[], dict[str, Any]], **names: Any) -> None:
        """Add a row, or one that says why there is none."""
        left = self.ends - time.monotonic()
        if left < LEAST[table]:
            found: dict[str, Any] = {"note": f"no time: {left:.0f} s left"}
        else:
            try:
                found = work()
            except Exception as error:
                reason = str(error).partition("\n")[0][:150]
                found = {"note": f"failed: {type(error).__name__}: {reason}"}
        self.tables.setdefault(table, []).append({**names, **found})
        free()

    def show(self, facts: dict[str, Any]) -> None:
        """Print it all, once."""
        if self.printed.is_set():
            return
        self.printed.set()
        for title, rows in self.tables.items():
            columns = list(dict.fromkeys(name for row in rows for name in row))
            columns.sort(key="note".__eq__)
            show(title, [{name: row.get(name) for name in columns} for row in rows])
        print(json.dumps({**facts, "tables": self.tables}), flush=True)


def measure(kind: Kind, scale: Scale, device: torch.device, findings: Findings) -> None:
    """All parts of one model; what it holds is free afterwards."""
    made: list[Bench] = []

    def make() -> dict[str, Any]:
        made.append(Bench(kind, scale, device))
        return made[0].made()

    part = partial(findings.part, model=kind.name)
    part("made", make)
    if not made:
        return
    bench = made.pop()
    smallest = kind is scale.kinds[0]
    if smallest:
        part("numerics", bench.numerics)
    for tokens in scale.tokens:
        part("peak", partial(bench.peak, tokens), tokens=tokens)
    part("step", partial(bench.step, N), way=f"n = m = {N}")
    part("step", partial(bench.step, M), way=f"n = {N}, m = {M}")
    part("step", bench.padded, way=f"n = m = {N}, plain")
    if smallest:
        part("retry", bench.retry)


def main() -> None:
    """Measure until the time is over, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=440.0)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not args.small:
        sys.exit("gpu.py: no CUDA device. Add --small to try the code without one.")
    facts = {
        **machine(),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    findings = Findings(time.monotonic() + args.seconds)

    def finish() -> None:
        findings.show({**facts, "note": "time was over in the middle of a part"})
        os._exit(0)

    watchdog = threading.Timer(args.seconds, finish)
    watchdog.daemon = True
    watchdog.start()
    scale = SCALES["small" if args.small else "large"]
    for kind in scale.kinds:
        measure(kind, scale, device, findings)
        gc.collect()
        free()
    watchdog.cancel()
    findings.show(facts)


if __name__ == "__main__":
    main()
