import asyncio
import json
import os
import signal
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrl import disk
from agentrl.checkpoint import find
from agentrl.config import TrainConfig
from agentrl.errors import RunError, UsageError
from agentrl.events import Learned, Measured, Phased, Picked, Played, Started, Stepped, Warned
from agentrl.metrics import METRICS
from agentrl.training import train

ENVIRONMENTS = '''
from agentrl import ListTasks, Task, ToolEnv, tool
from agentrl.errors import EnvironmentFault


class Lengths(ToolEnv):
    """Longer answers earn more: rewards differ even for a policy that knows nothing."""

    max_turns = 2

    @classmethod
    def tasks(cls, split):
        return ListTasks([Task(f"Say something about {i}.") for i in range(200)], split=split)

    @tool
    def look(self, at: str) -> str:
        """Look at a thing."""
        return "nothing"

    def reward(self, task, trajectory):
        return len(trajectory.answer) / 100


class Flat(Lengths):
    """Everything earns the same."""

    def reward(self, task, trajectory):
        return 1.0


class Rambling(Lengths):
    """Some episodes read much more than others for the same reward."""

    def start(self, task):
        return "word " * 300 if self.np_random_seed % 4 < 2 else None

    def reward(self, task, trajectory):
        return float(trajectory.seed % 2)


class Shaky(Lengths):
    """Infrastructure breaks in some episodes; others cannot be scored."""

    def reward(self, task, trajectory):
        kind = trajectory.seed % 3
        if kind == 0:
            raise EnvironmentFault("the database went away")
        return None if kind == 1 else len(trajectory.answer) / 100


class Dead(Lengths):
    """Infrastructure is down."""

    def reward(self, task, trajectory):
        raise ConnectionError("no database")


class Empty(Lengths):
    """There are no tasks to measure on."""

    @classmethod
    def tasks(cls, split):
        return ListTasks([])
'''


@pytest.fixture
def environment(tmp_path):
    path = tmp_path / "envs.py"
    path.write_text(ENVIRONMENTS)
    return lambda name: f"{path}:{name}"


def settings(out, name, **changes):
    base = {
        "env": {"name": name},
        "select": {"n": 6, "m": 4},
        "rollout": {"max_turn_tokens": 24},
        "train": {"steps": 2, "tasks_per_step": 2, "save_every": 1, "keep_checkpoints": 9},
        "heldout": {"tasks": 3},
        "run": {"out": str(out), "name": "run"},
    }
    for section, values in changes.items():
        base[section] = {**base.get(section, {}), **values}
    return TrainConfig.model_validate(base)


def figures(run):
    """Metrics without the seconds, which no seed fixes, nor memory, which the process shares."""
    moving = ("time/", "update/peak")
    return [
        {k: v for k, v in row.items() if not k.startswith(moving)}
        for row in disk.rows(run / "metrics.jsonl")
    ]


def weights(run, step=None):
    return (find(run / "checkpoints", step) / "policy" / "model.safetensors").read_bytes()


def test_a_run_leaves_what_other_programs_rely_on(tmp_path, environment):
    events = []
    config = settings(tmp_path, environment("Lengths"), record={"tokens": True})
    summary = train(config, command=["agentrl", "train"], listeners=[events.append])
    run = tmp_path / "run"
    facts = json.loads((run / "run.json").read_text())
    assert facts["status"] == "done"
    assert (facts["n"], facts["m"], facts["seed"]) == (6, 4, 0)
    assert facts["heldout"]["before"]["tasks"] == facts["heldout"]["after"]["tasks"] == 3
    assert facts["tokens"]["sampled"] > facts["tokens"]["trained"] > 0
    assert facts["seconds"]["total"] >= facts["seconds"]["rollout"] > 0
    assert [set(row) for row in disk.rows(run / "metrics.jsonl")] == [set(METRICS)] * 2
    assert (run / "checkpoints" / "latest").read_text() == "000002\n"
    again = TrainConfig.model_validate(tomllib.loads((run / "config.toml").read_text()))
    assert again == config
    assert summary.status == "done"
    kinds = [type(e) for e in events]
    seldom = [kind for kind in kinds if kind in (Started, Measured, Stepped)]
    assert seldom == [Started, Measured, Stepped, Stepped, Measured]
    step = kinds[kinds.index(Measured) : kinds.index(Stepped)]
    assert step.index(Played) < step.index(Picked) < step.index(Learned)
    going = [e.part for e in events if isinstance(e, Phased) and e.going]
    assert [part for part in going if part != "sync"] == [
        *("eval", *("rollout", "select", "update") * 2, "eval")
    ]


def test_every_trajectory_is_recorded_and_only_kept_ones_are_weighed(tmp_path, environment):
    train(settings(tmp_path, environment("Lengths"), record={"tokens": True}))
    rows = list(disk.rows(tmp_path / "run" / "groups" / "000001.jsonl"))
    assert len(rows) == 12
    assert sum(row["kept"] for row in rows) == 8
    for row in rows:
        assert len(row["input_ids"]) == len(row["loss_mask"]) == len(row["logprobs"])
        assert sum(row["loss_mask"]) == row["trained_tokens"]
        assert len(row["input_ids"]) == row["tokens"]
        assert (row["advantage"] is not None) == row["kept"] == (row["weight"] > 0)
    assert len({row["task_id"] for row in rows}) == 2
    assert len({row["seed"] for row in rows}) == 12


def test_the_same_seed_gives_the_same_bits(tmp_path, environment):
    for name in ("one", "two"):
        train(settings(tmp_path, environment("Lengths"), run={"name": name}))
    assert figures(tmp_path / "one") == figures(tmp_path / "two")
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    train(settings(tmp_path, environment("Lengths"), run={"name": "3"}, train={"seed": 1}))
    assert weights(tmp_path / "3") != weights(tmp_path / "one")


def test_a_resumed_run_is_the_unbroken_run(tmp_path, environment):
    longer = {"steps": 4}
    train(settings(tmp_path, environment("Lengths"), train=longer, run={"name": "straight"}))
    train(settings(tmp_path, environment("Lengths"), run={"name": "broken"}))
    config = settings(tmp_path, environment("Lengths"), train=longer, run={"name": "broken"})
    summary = train(config, resume="broken")
    assert summary.before is not None
    assert figures(tmp_path / "broken") == figures(tmp_path / "straight")
    assert weights(tmp_path / "broken") == weights(tmp_path / "straight")
    assert len(list(disk.rows(tmp_path / "broken" / "metrics.jsonl"))) == 4


def test_a_run_that_was_killed_goes_on_with_what_it_had_measured(tmp_path, environment):
    class Killed(BaseException):
        """Stands for a process that is gone: nothing is caught, nothing tidied."""

    def die(event):
        if isinstance(event, Stepped):
            raise Killed

    config = settings(tmp_path, environment("Lengths"), run={"name": "run"})
    with pytest.raises(Killed):
        train(config, listeners=[die])
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**facts, "status": "running"}))
    summary = train(config, resume="run")
    assert (summary.status, summary.before is None) == ("done", False)


def test_a_run_that_ended_before_its_last_measurement_makes_it_up(tmp_path, environment):
    config = settings(
        tmp_path, environment("Lengths"), train={"save_every": 1}, run={"name": "run"}
    )
    done = train(config)
    file = tmp_path / "run" / "run.json"
    facts = json.loads(file.read_text())
    facts["heldout"]["after"] = None
    file.write_text(json.dumps({**facts, "status": "running"}))
    assert train(config, resume="run").after == done.after
    assert json.loads(file.read_text())["status"] == "done"
    with pytest.raises(UsageError, match="asks for no more"):
        train(config, resume="run")


def test_a_resumed_run_that_asks_for_too_little_loses_nothing(tmp_path, environment):
    config = settings(tmp_path, environment("Lengths"), run={"name": "run"})
    train(config)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*.jsonl")}
    with pytest.raises(UsageError, match="asks for no more"):
        train(
            config.model_copy(update={"train": config.train.model_copy(update={"steps": 1})}),
            resume="run",
        )
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*.jsonl")} == before


def test_inside_an_event_loop_a_run_is_refused_and_nothing_is_written(tmp_path, environment):
    config = settings(tmp_path, environment("Lengths"), run={"name": "run"})

    async def notebook():
        return train(config)

    with pytest.raises(UsageError, match=r"await asyncio\.to_thread\(agentrl\.train"):
        asyncio.run(notebook())
    assert not (tmp_path / "run").exists()


def test_two_processes_never_write_one_run(tmp_path, environment):
    config = settings(tmp_path, environment("Lengths"), run={"name": "run"})
    refused = []

    def again(event):
        if isinstance(event, Stepped) and not refused:
            with ThreadPoolExecutor(1) as pool:
                refused.append(pool.submit(train, config, resume="run").exception())

    assert train(config, listeners=[again]).status == "done"
    assert "another process is writing" in str(refused[0])


def test_a_resumed_run_keeps_its_settings(tmp_path, environment):
    train(settings(tmp_path, environment("Lengths")))
    before = (tmp_path / "run" / "run.json").read_bytes()
    config = settings(tmp_path, environment("Lengths"), train={"steps": 4}, select={"m": 2})
    with pytest.raises(UsageError, match=r"select\.m 4 → 2"):
        train(config, resume="run")
    with pytest.raises(UsageError, match="asks for no more"):
        train(settings(tmp_path, environment("Lengths")), resume="run")
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_one_interrupt_finishes_the_step_and_saves(tmp_path, environment):
    def interrupt(event):
        if isinstance(event, Stepped):
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    config = settings(tmp_path, environment("Lengths"), train={"steps": 9, "save_every": 0})
    summary = train(config, listeners=[interrupt])
    assert summary.status == "stopped"
    assert summary.steps == 1
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "stopped"
    assert find(tmp_path / "run" / "checkpoints").name == "000001"
    assert signal.getsignal(signal.SIGINT) is handler


def test_flat_groups_are_never_trained_on_and_a_person_is_told(tmp_path, environment):
    events = []
    config = settings(tmp_path, environment("Flat"), train={"flat_warning": 2})
    train(config, listeners=[events.append])
    rows = list(disk.rows(tmp_path / "run" / "metrics.jsonl"))
    assert [(r["version"], r["select/flat"], r["select/kept"]) for r in rows] == [(0, 2, 0)] * 2
    assert weights(tmp_path / "run", 0) == weights(tmp_path / "run", 2)
    assert [e.text for e in events if isinstance(e, Warned)]


def test_a_step_trains_on_no_more_tokens_than_its_budget(tmp_path, environment):
    plain = settings(tmp_path / "plain", environment("Lengths"), train={"steps": 1})
    train(plain)
    (whole,) = disk.rows(tmp_path / "plain" / "run" / "metrics.jsonl")
    budget = whole["update/tokens"] * 2 // 3
    train(settings(tmp_path, environment("Lengths"), select={"token_budget": budget}))
    rows = list(disk.rows(tmp_path / "run" / "metrics.jsonl"))
    for row in rows:
        assert 0 < row["select/tokens_kept"] == row["update/tokens"] <= budget
        assert row["select/price"] > 0
        assert 0 <= row["select/gap"] < 1
    assert rows[0]["select/tokens_all"] == whole["select/tokens_all"]


def test_a_budget_that_nothing_fits_trains_on_nothing_and_says_so(tmp_path, environment):
    train(settings(tmp_path, environment("Lengths"), select={"token_budget": 3}))
    rows = list(disk.rows(tmp_path / "run" / "metrics.jsonl"))
    found = [(r["version"], r["select/kept"], r["select/starved"]) for r in rows]
    assert found == [(0, 0, 2)] * 2


def test_a_person_is_told_what_no_micro_batch_holds(tmp_path, environment):
    events = []
    config = settings(tmp_path, environment("Lengths"), update={"tokens_per_micro_batch": 40})
    train(config, listeners=[events.append])
    rows = list(disk.rows(tmp_path / "run" / "metrics.jsonl"))
    assert [(r["plan/oversize"], r["select/kept"], r["version"]) for r in rows] == [(12, 0, 0)] * 2
    (text,) = [e.text for e in events if isinstance(e, Warned)]
    assert text.startswith("step 1: 12 of 12 trajectories are longer than a micro-batch of 40 ")


def test_a_resumed_run_may_change_what_an_update_takes(tmp_path, environment):
    train(settings(tmp_path, environment("Lengths")))
    more = settings(
        tmp_path,
        environment("Lengths"),
        train={"steps": 3},
        update={"tokens_per_micro_batch": 4000, "checkpointing": "layers", "memory": "1GiB"},
    )
    assert train(more, resume="run").steps == 3


def test_a_person_is_told_where_a_budget_keeps_the_short_ones_only(tmp_path, environment):
    events = []
    config = settings(
        tmp_path,
        environment("Rambling"),
        select={"n": 12, "m": 4, "token_budget": "auto", "within": "cheapest"},
        update={"tokens_per_micro_batch": 1200},
        train={"flat_warning": 2},
    )
    train(config, listeners=[events.append])
    rows = list(disk.rows(tmp_path / "run" / "metrics.jsonl"))
    assert all(r["select/length_ratio"] < 0.7 for r in rows)
    assert [e.text for e in events if isinstance(e, Warned) and "--token-budget" in e.text]


def test_broken_and_unscored_episodes_never_become_rewards(tmp_path, environment):
    train(settings(tmp_path, environment("Shaky"), select={"n": 12}))
    rows = list(disk.rows(tmp_path / "run" / "groups" / "000001.jsonl"))
    broken = [r for r in rows if r["seed"] % 3 == 0]
    unscored = [r for r in rows if r["seed"] % 3 == 1]
    assert broken
    assert unscored
    assert {(r["reward"], r["kept"], r["status"]) for r in broken} == {(None, False, "error")}
    assert {(r["reward"], r["kept"]) for r in unscored} == {(None, False)}
    assert all("went away" in r["problem"] for r in broken)
    metrics = next(disk.rows(tmp_path / "run" / "metrics.jsonl"))
    assert metrics["env/infra_errors"] == len(broken)


def test_a_run_whose_every_episode_breaks_stops_and_says_what_broke(tmp_path, environment):
    with pytest.raises(RunError, match=r"broke all 3 episodes.*no database"):
        train(settings(tmp_path, environment("Dead")))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"env": {"name": "tool_mth"}}, "Did you mean tool_math"),
        ({"env": {"name": "tool_math", "options": {"dificulty": "easy"}}}, "difficulty"),
        ({"model": {"name": "no/such/folder"}}, "no such folder"),
        ({"rollout": {"max_turn_tokens": 24, "max_context": 30}}, "the context has 30"),
        ({"train": {"tasks_per_step": 500, "steps": 1}}, "different tasks"),
    ],
)
def test_a_wrong_setting_is_one_line_and_nothing_is_written(tmp_path, environment, changes, reason):
    out = tmp_path / "runs"
    with pytest.raises(UsageError, match=reason):
        train(settings(out, environment("Lengths"), **changes))
    assert not out.exists()


def test_an_environment_without_held_out_tasks_is_refused(tmp_path, environment):
    with pytest.raises(UsageError, match="no tasks"):
        train(settings(tmp_path / "runs", environment("Empty")))


def test_a_folder_that_holds_a_run_is_left_alone(tmp_path, environment):
    config = settings(tmp_path, environment("Lengths"), train={"steps": 1})
    train(config)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")}
    with pytest.raises(UsageError, match="holds a run"):
        train(config)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")} == before
