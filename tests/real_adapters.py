"""A program for the environments that `make adapters` builds: real packages, our adapters.

It ends with 0 where everything held, and else with a traceback.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

import agentrl
from agentrl import registry
from agentrl.errors import UsageError

TOYS = Path(__file__).parent / "toys"


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def refused(text, said):
    why = ""
    try:
        registry.make(text)
    except UsageError as error:
        why = str(error)
    assert said in why, f"{text}: {why}"


def checked(text, skipped):
    report = agentrl.check_env(text, seconds=180)
    assert report.ok, str(report)
    assert {f.name for f in report.findings if f.status == "skipped"} == skipped, str(report)


def verifiers():
    """A taskset: its tools, its state, its rewards; and what is refused."""
    env = registry.make("verifiers/agentrl-toy-sums")
    task = env.task_source("test")[0]
    env.reset(seed=1, options={"task": task})
    assert [s["function"]["name"] for s in env.tool_schemas()] == ["calc_add"]
    assert "only upwards" in env.step(call("calc_add", a=-1, b=2))[0][0]["content"]
    env.reset(seed=1, options={"task": task})
    assert env.step(call("calc_add", a=1, b=2))[0][0]["content"] == "3"
    *_, info = env.step(task.answer["answer"])
    assert info["reward_parts"] == {"exact": 1.0, "used": 0.5}, info
    env.reset(seed=1, options={"task": task})
    *_, info = env.step(task.answer["answer"])
    assert info["reward_parts"] == {"exact": 1.0, "used": 0.0}, "a state of its own"
    env.close()
    refused("verifiers/agentrl-toy-machine", "its tasks have a setup")
    refused("verifiers/agentrl-toy-nothing", "not found")
    checked("verifiers/agentrl-toy-sums", {"reference", "wrong"})


def gem():
    """A game, and a data set with its grader."""
    env = registry.make("gem/game:GuessTheNumber-v0-easy")
    env.reset(seed=1)
    low, high = 1, 10
    while env.end is None:
        middle = (low + high) // 2
        news, *_, info = env.step(rf"\boxed{{{middle}}}")
        if news and "higher" in news[0]["content"]:
            low = middle + 1
        else:
            high = middle - 1
    assert info["stop"] == "answer", info
    assert info["correct"], info
    env.close()
    refused("gem/game:Nothing", "GEM has no such id")
    checked("gem/game:GuessTheNumber-v0-easy", {"reference", "wrong", "told", "arguments"})


def openenv():
    """A server of the package itself, in a process of its own."""
    with served() as url:
        env = registry.make(f"openenv/{url}")
        env.reset(seed=1)
        assert "integer" in env.step(call("act", number="x"))[0][0]["content"]
        low, high, info = 1, 100, {}
        while env.end is None:
            middle = (low + high) // 2
            news, *_, info = env.step(call("act", number=middle))
            low, high = (middle + 1, high) if "higher" in news[0]["content"] else (low, middle - 1)
        assert (info["stop"], info["correct"]) == ("tool_end", True), info
        env.close()
        checked(f"openenv/{url}", {"reference", "wrong"})


@contextmanager
def served():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(TOYS / "agentrl_toy_server.py"), str(port)])
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                httpx.get(f"{url}/health", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.path.insert(0, str(TOYS))
    # Other processes, which checks start, find the toys too.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TOYS), os.environ.get("PYTHONPATH", "")])
    for trial in {".venv-adapters": (verifiers, gem), ".venv-openenv": (openenv,)}[sys.argv[1]]:
        trial()
