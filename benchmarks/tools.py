"""Tools of many episodes at once: does a tool that waits hold up anybody else?

In    episodes, seconds that each one's tool takes
Out   seconds until every tool is done, the longest time the event loop stood still, CPU time
Not   a policy: each episode is one turn with one call

Arms: tools as they are, sync and async; and, as peers run them, the same sync tool on the event
loop itself, in asyncio's own executor, and in a thread of its own for each call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from tables import machine, show

from agentrl.env import ToolEnv
from agentrl.message import AssistantTurn, ToolCall
from agentrl.task import Task
from agentrl.tooling import tool

AIM = 2.0
"""Seconds in which 256 episodes have had a tool of 0.2 s."""
ON_LOOP = 32
"""Episodes of the arm that takes its time one after the other."""
TICK = 0.002
NOTHING = 4096
"""Calls of a tool that does nothing."""


class Nap(ToolEnv):
    """Tools that wait for a while."""

    seconds = 0.2

    @tool(timeout=600)
    def sync(self) -> str:
        """Wait in a thread, as a blocking client does."""
        time.sleep(self.seconds)
        return "done"

    @tool(timeout=600)
    async def later(self) -> str:
        """Wait as an async client does."""
        await asyncio.sleep(self.seconds)
        return "done"

    @tool(timeout=600)
    async def loop(self) -> str:
        """Block the loop: what happens where a sync tool is called from async code."""
        time.sleep(self.seconds)
        return "done"

    @tool(timeout=600)
    async def executor(self) -> str:
        """Wait in asyncio's own pool of few threads."""
        await asyncio.to_thread(time.sleep, self.seconds)
        return "done"

    @tool(timeout=600)
    async def thread(self) -> str:
        """Wait in a thread of its own."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def work() -> None:
            time.sleep(self.seconds)
            loop.call_soon_threadsafe(done.set_result, None)

        threading.Thread(target=work, daemon=True).start()
        await done
        return "done"


ARMS = {
    "sync": "sync tool",
    "later": "async tool",
    "thread": "peer: a thread a call",
    "executor": "peer: asyncio's executor",
    "loop": "peer: on the loop",
}


async def episodes(name: str, count: int, seconds: float) -> dict[str, Any]:
    """One turn of many episodes at once."""
    envs = [Nap() for _ in range(count)]
    for env in envs:
        env.seconds = seconds
        await env.areset(options={"task": Task("2+2?")})
    turn = AssistantTurn("", (ToolCall(name, {}),))
    spent, stood, cpu = await watched(lambda: asyncio.gather(*(e.astep(turn) for e in envs)))
    return {"seconds": spent, "loop stood still, ms": 1e3 * stood, "CPU, ms": 1e3 * cpu}


async def watched(work: Callable[[], Awaitable[Any]]) -> tuple[float, float, float]:
    """Seconds of some work, the longest that the loop stood still meanwhile, and CPU seconds."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK)
            longest = max(longest, time.perf_counter() - before - TICK)

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    start, cpu = time.perf_counter(), time.process_time()
    await work()
    spent, cpu = time.perf_counter() - start, time.process_time() - cpu
    await asyncio.sleep(0)
    watcher.cancel()
    return spent, longest, cpu


async def waiting(counts: list[int], seconds: float, repeats: int) -> list[dict[str, Any]]:
    """Waves of all arms in turn: the first, whose threads are new, and the median of later ones."""
    rows = []
    for name, count in (("loop", ON_LOOP), ("executor", counts[0])):
        # They take as long as there are episodes: once is enough.
        found = await episodes(name, count, seconds)
        rows.append({"episodes": count, "arm": ARMS[name], "wave": "first", **found})
    for count in counts:
        waves: dict[str, list[dict[str, Any]]] = {"later": [], "sync": [], "thread": []}
        for _ in range(1 + repeats):
            for name, found in waves.items():
                found.append(await episodes(name, count, seconds))
        for name, (first, *others) in waves.items():
            middle = {key: median(row[key] for row in others) for key in first}
            for wave, found in (("first", first), ("later", middle)):
                rows.append({"episodes": count, "arm": ARMS[name], "wave": wave, **found})
    return rows


def nothing(calls: int) -> list[dict[str, Any]]:
    """CPU time of a call that does nothing: what the machinery around it costs."""
    rows = []
    for name in ("sync", "later", "thread", "executor", "loop"):
        turn = AssistantTurn("", (ToolCall(name, {}),) * 16)

        async def many(turn: AssistantTurn = turn) -> float:
            class Quick(Nap):
                seconds = 0.0
                max_turns = max_tool_calls = 1 << 30

            env = Quick()
            await env.areset(options={"task": Task("2+2?")})
            await env.astep(turn)
            cpu = time.process_time()
            for _ in range(calls // 16):
                await env.astep(turn)
                env._turns = ()  # a long history is not what is measured
            return (time.process_time() - cpu) / calls

        rows.append({"arm": ARMS[name], "CPU a call, µs": 1e6 * asyncio.run(many())})
    return rows


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="Tools of many episodes at once.")
    parser.add_argument("--seconds", type=float, default=0.2, help="that each tool takes")
    parser.add_argument("--repeats", type=int, default=9, help="waves after the first")
    parser.add_argument("--quick", action="store_true", help="two waves after the first, 256 only")
    args = parser.parse_args()
    where = machine()
    print(", ".join(f"{name} {value}" for name, value in where.items()))
    counts = [256] if args.quick else [256, 1024]
    waits = asyncio.run(waiting(counts, args.seconds, 2 if args.quick else args.repeats))
    costs = nothing(NOTHING // 4 if args.quick else NOTHING)
    own = [r["seconds"] for r in waits if r["episodes"] == 256 and not r["arm"].startswith("peer")]
    aims = [{"aim": "256 episodes, 0.2 s each, s", "": "<", "aimed": AIM, "measured": max(own)}]
    aims[0]["held"] = bool(max(own) < AIM)
    show(f"a tool of {args.seconds} s in each episode", waits)
    show("a tool that does nothing, 16 calls a turn", costs)
    show("aims", aims)
    tables = {"waits": waits, "costs": costs, "aims": aims}
    print(json.dumps({**where, **vars(args), **tables}))


if __name__ == "__main__":
    main()
