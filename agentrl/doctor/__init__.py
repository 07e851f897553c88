"""Doctor: what this machine can do, and what to do about what it can't.

In    this machine: its packages, devices, memory, disk, clock, and what its kernel holds
Out   findings, each with a cure where something is missing
Not   a benchmark, nor a promise that a given model fits: `agentrl plan` says that
"""
