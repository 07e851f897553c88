"""Whole runs at servers: played ahead, at two of them, killed, broken off and gone on with."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest

from agentrl import disk
from agentrl.config import TrainConfig
from agentrl.events import Played, Stepped
from agentrl.training import train
from tests.server_policy import PolicyDouble
from tests.test_training import weights


@pytest.fixture
def servers():
    made = []

    def make(port=0):
        made.append(PolicyDouble(port=port))
        return made[-1]

    yield make
    for double in made:
        double.close()


def settings(out, name, *at, steps=3, ahead=0, **engine):
    urls = tuple(server.url for server in at)
    return TrainConfig.model_validate(
        {
            "engine": {"name": "vllm-server", "urls": urls, "request_timeout": 5.0, **engine},
            "rollout": {"max_context": 1024, "max_turn_tokens": 64},
            "select": {"n": 4, "m": 2},
            "train": {"steps": steps, "tasks_per_step": 2, "max_staleness": ahead},
            "heldout": {"tasks": 0},
            "record": {"tokens": True},
            "run": {"out": str(out), "progress": "off", "name": name},
        }
    )


def rows(run):
    return list(disk.rows(run / "metrics.jsonl"))


def played(run):
    """Ids of every trajectory, step by step."""
    files = sorted((run / "groups").iterdir())
    return [[row["input_ids"] for row in disk.rows(file)] for file in files]


def test_two_servers_train_as_one_does_to_the_bit(servers, tmp_path):
    one, other = servers(), servers()
    train(settings(tmp_path, "one", one, steps=2))
    train(settings(tmp_path, "two", one, other, steps=2))
    alone, both = tmp_path / "one", tmp_path / "two"
    assert played(alone) == played(both)
    assert weights(alone) == weights(both)
    assert all(abs(row["mismatch/k3"]) < 1e-6 for row in rows(both))
    assert [row["engine/hand_overs"] for row in rows(both)] == [2, 2]
    assert all(len(double.asked) > 10 for double in (one, other))


@pytest.mark.parametrize("ahead", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_run_that_plays_ahead_takes_weights_while_turns_are_asked_for(servers, tmp_path, ahead):
    server = servers()
    server.reload_seconds = 0.3
    done = train(settings(tmp_path, "ahead", server, steps=4, ahead=ahead))
    found = rows(tmp_path / "ahead")
    assert done.status == "done"
    assert 1 <= max(row["stale/max"] for row in found) <= ahead
    assert all(row["stale/dropped"] == 0 for row in found)


@pytest.mark.slow
def test_killed_in_mid_step_and_started_anew_the_samples_are_those_of_an_unbroken_run(
    servers, tmp_path
):
    first = servers()
    train(settings(tmp_path, "unbroken", first))
    again = threading.Thread(target=lambda: (first.close(), servers(first.port)))
    seen = []

    def kill(event):
        if isinstance(event, Played) and event.phase == "rollout":
            seen.append(event)
            if len(seen) == 10:  # in the second step
                again.start()

    done = train(settings(tmp_path, "killed", first, patience=30.0), listeners=[kill])
    again.join()
    killed = tmp_path / "killed"
    assert done.status == "done"
    assert played(killed) == played(tmp_path / "unbroken")
    assert sum(row["engine/servers_lost"] for row in rows(killed)) == 1
    assert sum(row["engine/servers_back"] for row in rows(killed)) == 1


def test_a_run_that_is_broken_off_leaves_nothing_and_goes_on_at_another_server(servers, tmp_path):
    def interrupt(event):
        if isinstance(event, Stepped):
            os.kill(os.getpid(), signal.SIGINT)

    one, other = servers(), servers()
    left = set(Path(tempfile.gettempdir()).glob("agentrl-weights-*"))
    stopped = train(settings(tmp_path, "cut", one, ahead=1), listeners=[interrupt])
    assert (stopped.status, stopped.steps) == ("stopped", 1)
    assert set(Path(tempfile.gettempdir()).glob("agentrl-weights-*")) <= left
    assert one.go_on.is_set()
    done = train(settings(tmp_path, "cut", other, ahead=1), resume=str(tmp_path / "cut"))
    assert (done.status, len(rows(tmp_path / "cut"))) == ("done", 3)
