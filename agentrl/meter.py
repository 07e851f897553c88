"""Meter: the peak memory of a step, and of each of its micro-batches.

In    a device, perhaps someone who learns from each micro-batch
Out   bytes
Not   a peak for each micro-batch on a CPU: a process cannot forget an earlier, higher one
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch

Observe = Callable[[int, int], None]
"""(tokens of a micro-batch, peak bytes while it ran, with all that was there before)."""


class Gauge(Protocol):
    """Reads the peak since it was last reset."""

    exact: bool
    """The peak is that of the time since, and counts what was there before."""

    def reset(self) -> None:
        """Forget all peaks so far."""

    def peak(self) -> int:
        """Bytes."""


class CudaGauge:
    """What torch's allocator had handed out."""

    exact = True

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        """Start from what is handed out now."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        """Bytes handed out at most."""
        return torch.cuda.max_memory_allocated(self._device)


class ProcessGauge:
    """How far the process's own peak rose; 0 where an earlier one was higher."""

    exact = False

    def __init__(self) -> None:
        self._before = peak_of_process()

    def reset(self) -> None:
        """Count from the peak so far."""
        self._before = peak_of_process()

    def peak(self) -> int:
        """Bytes above the peak at the reset."""
        return peak_of_process() - self._before


class Meter:
    """Measures one step after the other."""

    def __init__(self, gauge: Gauge, observe: Observe | None = None) -> None:
        self._gauge = gauge
        self._observe = observe
        self._highest = 0

    @property
    def exact(self) -> bool:
        """Whether a single micro-batch can be measured."""
        return self._gauge.exact

    def begin(self) -> None:
        """Start a step."""
        self._highest = 0
        self._gauge.reset()

    @contextmanager
    def micro_batch(self, tokens: int) -> Iterator[None]:
        """Tell the observer how high the block went, if it ends well and can be told."""
        if self._gauge.exact:
            self._renew()
        yield
        if self._gauge.exact and self._observe is not None:
            self._observe(tokens, self._gauge.peak())

    def peak(self) -> int:
        """Bytes since the step began."""
        return max(self._highest, self._gauge.peak())

    def _renew(self) -> None:
        self._highest = self.peak()
        self._gauge.reset()


def gauge_of(device: torch.device) -> Gauge:
    """What can be read on a device."""
    return CudaGauge(device) if device.type == "cuda" else ProcessGauge()


def peak_of_process() -> int:
    """Bytes that the process has held at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
