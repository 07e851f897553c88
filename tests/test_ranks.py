import math
import os
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field

import pytest

from agentrl import disk
from agentrl.errors import RunError
from agentrl.parallel import Single
from agentrl.ranks import Leader, follow
from agentrl.update import Learner
from tests.models import llama
from tests.rows import SAMPLES


@dataclass
class Wire(Single):
    """What rank 0 says, for another to hear later."""

    said: deque[object] = field(default_factory=deque)
    speaks: bool = True

    def broadcast(self, value):
        if self.speaks:
            self.said.append(value)
            return value
        return self.said.popleft()


@dataclass
class Shelf:
    """A policy that remembers where it was loaded from."""

    loaded: list[str] = field(default_factory=list)

    def load(self, folder):
        self.loaded.append(folder.name)


def weights(learner):
    return [p.detach().clone() for p in learner.model.parameters()]


def test_whoever_follows_does_all_that_the_leader_did(tmp_path):
    wire = Wire()
    leader = Leader(Learner(llama(), lr=1e-2), wire)
    (tmp_path / "learner").mkdir()
    leader.save(tmp_path / "learner")
    leader.load(tmp_path / "learner")
    assert leader.rehearse(20, 10)
    leader.step(SAMPLES, len(SAMPLES))
    leader.cap = 99
    leader.step(SAMPLES, len(SAMPLES))
    leader.close()
    other, shelf = Learner(llama(), lr=1e-2), Shelf()
    assert follow(other, shelf, Wire(said=wire.said, speaks=False)) == 2
    assert other.cap == 99
    assert shelf.loaded == ["policy"]
    same = zip(weights(other), weights(leader._learner), strict=True)
    assert all(bool((a == b).all()) for a, b in same)


@dataclass
class Cut(Single):
    """Nobody is there any more."""

    def broadcast(self, value):
        raise RunError("the other ranks did not answer")


def test_a_leader_whose_followers_have_died_closes_without_a_word():
    Leader(Learner(llama(), lr=1e-2), Cut()).close()


RUN = [
    *("--env", "tool_math", "--select.n", "8", "--select.m", "4", "--tasks-per-step", "2"),
    *("--heldout.tasks", "4", "--progress", "off"),
]


def started(out, *words, ranks=0):
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--standalone"]
    command = [sys.executable, *(launcher if ranks else ()), "-m", "agentrl", "train", *words]
    done = subprocess.run(
        [*command, "--out", str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_two_ranks_train_and_resume_as_one_does(tmp_path):
    started(tmp_path, *RUN, "--train.steps", "3", "--name", "one")
    shared = (*RUN, "--update.parallel", "replicated", "--name", "two", "--train.steps", "2")
    said = started(tmp_path, *shared, ranks=2)
    assert said.count("done after step 2") == 1
    started(tmp_path, "--resume", "two", "--train.steps", "3", ranks=2)
    one, two = (list(disk.rows(tmp_path / name / "metrics.jsonl")) for name in ("one", "two"))
    assert [r["step"] for r in two] == [1, 2, 3]
    for a, b in zip(one, two, strict=True):
        assert (a["reward"], a["update/tokens"]) == (b["reward"], b["update/tokens"])
        assert math.isclose(a["update/grad_norm"], b["update/grad_norm"], rel_tol=1e-5)
