"""Checks of environments: what is good passes, and each mistake is found at its line."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import subprocess
import sys
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

import agentrl
from agentrl.checks import check_env
from agentrl.checks.bench import Bench
from agentrl.checks.calls import sensible
from agentrl.checks.run import run_checks
from agentrl.checks.subject import subject_of
from agentrl.checks.surroundings import descendants, told_to
from agentrl.checks.table import CHECKS
from agentrl.errors import UsageError
from agentrl.tooling import tool
from tests import bad_envs
from tests.bad_envs import Good

SECONDS = 20.0


@pytest.fixture(scope="module", autouse=True)
def _let_go():
    yield
    bad_envs.HOLD.set()


def status(report, name):
    return next(f.status for f in report.findings if f.name == name)


def test_an_environment_without_mistakes_passes_every_check():
    report = check_env(Good)
    assert report.ok, str(report)
    assert [f.name for f in report.findings] == [check.name for check in CHECKS]
    assert {f.status for f in report.findings} == {"passed"}, str(report)


def test_the_same_environment_gives_the_same_report():
    assert check_env(Good) == check_env(Good)


def test_an_environment_that_comes_with_agentrl_passes():
    report = agentrl.check_env("tool_math")
    assert report.ok, str(report)


# The mistake, the check that finds it, and the attribute whose lines it points to.
MISTAKES = [
    ("HangsInStart", "scored", "start"),
    ("WaitsInStart", "scored", None),
    ("HangsInInit", "made", "__init__"),
    ("RaisesInReward", "scored", "reward"),
    ("RewardsGarbage", "scored", "reward"),
    ("StartsWithGarbage", "scored", "start"),
    ("HasGarbageForTasks", "tasks", "tasks"),
    ("HasNoTestTasks", "tasks", "tasks"),
    ("EndsTheProgram", "tasks", "tasks"),
    ("SharesTasks", "splits", "tasks"),
    ("ShufflesTasks", "tasks", "tasks"),
    ("HashesTasks", "again", "tasks"),
    ("Prints", "scored", "start"),
    ("Forks", "leaks", "start"),
    ("LeavesThreads", "leaks", "start"),
    ("LeavesFiles", "leaks", "start"),
    ("LeavesDescriptors", "leaks", "start"),
    ("CollectsInTheClass", "leaks", None),
    ("CountsInTheClass", "leaks", None),
    ("SetsVariables", "leaks", "start"),
    ("ChangesFolder", "leaks", "start"),
    ("SharesState", "seeds", "start"),
    ("KeepsFromInit", "seeds", None),
    ("RemembersInAnObject", "leaks", None),
    ("RemembersInTheModule", "leaks", None),
    ("ChangesItsTask", "leaks", "start"),
    ("SaysASet", "again", "colours"),
    ("SaysAnAddress", "arguments", "shelf"),
    ("LeavesALoopTask", "leaks", "start"),
    ("LeavesFilesHere", "leaks", None),
    ("BreaksOnAChoice", "arguments", "sort"),
    ("BreaksOnAModel", "arguments", "put"),
    ("RunsOn", "arguments", "shake"),
    ("BreaksWhereNothingWasSaid", "scored", "reward"),
    ("BreaksInOtherTasks", "scored", "reward"),
    ("PaysByTheCall", "wrong", None),
    ("TakesAnyAnswer", "wrong", "reward"),
    ("TellsFromMeta", "gold", "start"),
    ("DrawsGlobally", "seeds", "start"),
    ("DrawsGlobally", "randomness", "start"),
    ("Seeds", "randomness", "start"),
    ("PaysEverybody", "wrong", "reward"),
    ("PaysNobody", "reference", "reward"),
    ("PaysTheEmptyAnswer", "wrong", "reward"),
    ("GoesOn", "reference", "reply"),
    ("Mute", "told", "hum"),
    ("RaisesInTool", "arguments", "divide"),
    ("ReturnsNone", "arguments", "note"),
    ("BlocksTheLoop", "limits", "wait"),
    ("NeverTimesOut", "limits", "wait"),
    ("Endless", "limits", None),
    ("TellsTheAnswer", "gold", "start"),
    ("AsksWithTheAnswer", "gold", "tasks"),
    ("TellsAProcess", "gold", "start"),
    ("WritesMarks", "tokens", "start"),
    ("OwnSteps", "gymnasium", None),
]


@pytest.mark.parametrize(("name", "check", "attribute"), MISTAKES)
def test_a_mistake_is_found_at_its_line(name, check, attribute, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = getattr(bad_envs, name)
    checks = [c for c in CHECKS if c.vital or c.name == check]
    seconds = 1.0 if name.startswith(("Hangs", "Waits")) else SECONDS
    report = run_checks(checks, Bench(subject_of(kind, {}), seconds))
    found = next((f for f in report.failed if f.name == check), None)
    assert found is not None, str(report)
    file, _, line = found.where.rpartition(":")
    assert file.endswith("bad_envs.py")
    lines, first = inspect.getsourcelines(vars(kind)[attribute] if attribute else Good)
    if attribute:
        assert first <= int(line) < first + len(lines), found
    assert found.why.endswith((".", "?"))
    assert found.next.endswith(".")
    assert "\n" not in str(found)


class Order(BaseModel):
    item: str
    count: Annotated[int, Field(ge=1)] = 1


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


def test_calls_that_are_tried_are_such_that_a_tool_takes_them():
    class Shelf(Good):
        @tool
        def fill(
            self,
            orders: Annotated[list[Order], Field(min_length=1)],
            size: Size,
            where: Literal["top", "bottom"],
            row: Annotated[int, Field(gt=3, lt=9)] = 4,
            note: str | None = None,
            pair: tuple[int, str] = (1, "a"),
            code: Annotated[str, Field(min_length=3)] = "abc",
            share: Annotated[float, Field(le=0.5)] = 0.1,
        ) -> str:
            """Fill a shelf."""
            return "done"

    spec = Shelf._tools["fill"]
    tried = [spec.check(given) for _, given in sensible(spec)]
    assert {call["where"] for call in tried} == {"top", "bottom"}
    assert set(Size) == {call["size"] for call in tried}
    assert len(tried) > 5


def test_a_process_that_checks_what_hangs_comes_to_its_end():
    env = f"{inspect.getsourcefile(bad_envs)}:HangsInStart"
    done = subprocess.run(
        [sys.executable, "-m", "agentrl", "envs", "check", env, "--seconds", "1", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert json.loads(done.stdout)["ok"] is False
    assert "Traceback" not in done.stderr


def test_what_cannot_be_played_is_told_once_and_the_rest_is_left_out():
    report = check_env(bad_envs.HangsInStart, seconds=0.5)
    assert [f.name for f in report.failed] == ["scored"]
    assert status(report, "leaks") == "skipped"
    assert all(f.why for f in report.findings if f.status == "skipped")


def test_without_references_rewards_are_not_judged():
    report = check_env(bad_envs.NoReference)
    assert report.ok, str(report)
    assert {status(report, name) for name in ("reference", "wrong")} == {"skipped"}


def test_an_instance_is_checked_with_the_options_it_was_made_with():
    report = check_env(bad_envs.ManySizes(3))
    assert report.ok, str(report)
    assert status(report, "again") == "skipped"


def test_a_class_may_be_checked_with_options():
    report = check_env(bad_envs.ManySizes, options={"size": 3})
    assert report.ok, str(report)


def test_a_missing_option_is_a_finding_not_a_traceback():
    report = check_env(bad_envs.ManySizes)
    assert [f.name for f in report.failed] == ["made"]
    assert "size" in report.failed[0].why


@pytest.mark.parametrize("given", [3, object, "no_such_environment", None])
def test_what_is_no_environment_is_refused(given):
    with pytest.raises(UsageError):
        check_env(given)


def test_an_unknown_option_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean difficulty"):
        check_env("tool_math", options={"dificulty": "hard"})


def test_within_an_event_loop_the_way_out_is_named():
    async def main():
        check_env(Good)

    with pytest.raises(UsageError, match="to_thread"):
        asyncio.run(main())


def test_the_process_is_as_it_was_when_a_check_has_found_it_changed():
    state, folder = random.getstate(), os.getcwd()
    for kind in (bad_envs.SetsVariables, bad_envs.ChangesFolder, bad_envs.Seeds):
        assert not check_env(kind).ok
    assert (random.getstate(), os.getcwd()) == (state, folder)
    assert "SECRET_OF_AN_EPISODE" not in os.environ


def test_a_report_is_plain_json():
    document = check_env(bad_envs.PaysNobody).as_json()
    again = json.loads(json.dumps(document))
    assert again["ok"] is False
    row = next(row for row in again["checks"] if row["name"] == "reference")
    assert set(row) == {"name", "status", "what", "where", "why", "next"}


def test_own_descendants_and_what_they_were_told_can_be_read():
    command = [sys.executable, "-c", "input()", "a word"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={"TOLD": "x"}) as child:
        assert child.pid in [pid for pid, _ in descendants()]
        assert {"a word", "TOLD=x"} <= set(told_to(child.pid).split("\n"))
        child.kill()
    assert child.pid not in [pid for pid, _ in descendants()]
    assert told_to(child.pid).strip() == ""
