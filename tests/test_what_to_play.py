"""What to play at all: skipped tasks, pilots, and what is known of what was left out."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Mapping
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl import disk, leftout, past, pilot
from agentrl.checkpoint import find
from agentrl.config import TrainConfig
from agentrl.group import Group
from agentrl.leftout import Ended
from agentrl.past import Past
from agentrl.playing import remembered
from agentrl.sampler import Drawn, Taste, draw
from agentrl.selection.objective import is_flat
from agentrl.state import Standing
from agentrl.task import ListTasks, Task
from agentrl.training import train
from agentrl.trajectory import Branch, Span, Stop, Trajectory
from agentrl.waves import Rules, play_tasks

TASKS = [Task(f"task {i}") for i in range(60)]
HASHES = [task.hash for task in TASKS]
SOURCE = ListTasks(TASKS)
SKIPPING = Taste(skip_flat=2, audit=0.2)
PASTS = st.dictionaries(
    st.sampled_from(HASHES),
    st.tuples(st.integers(0, 4), st.integers(0, 9), st.floats(0, 1), st.floats(0, 99)),
)
REWARDS = st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=1, max_size=8)


def trajectory(task, member, reward, tokens=5, stop=Stop.ANSWER):
    branch = Branch((Span("prompt", (1,)), Span("sampled", (2,) * tokens)))
    return Trajectory(task, member, 0, (), (), stop, (branch,), reward)


def group(rewards, task=TASKS[0], first=0):
    return Group(task, tuple(trajectory(task, first + i, r) for i, r in enumerate(rewards)))


class Lot:
    """Plays by lot: each task has a chance of success, and perhaps a chance to break."""

    def __init__(self, rates: Mapping[str, float], broken: float = 0.0):
        self.rates, self.broken, self.step = rates, broken, 0
        self.asked: list[tuple[int, int, int]] = []

    async def __call__(self, tasks, first, last, expected):
        self.asked.append((len(tasks), first, last))
        return [group([self.reward(t, m) for m in range(first, last)], t, first) for t in tasks]

    def reward(self, task, member):
        drawn = np.random.default_rng([self.step, member, int(task.hash[:8], 16)]).random(2)
        return None if drawn[1] < self.broken else float(drawn[0] < self.rates[task.hash])


def run(rates, steps, rules, taste, standing=None, first=1):
    """So many steps of play; (row, groups as played, groups in full, skipped) of each."""
    standing, lot, found = standing or Standing(), Lot(rates), []
    for step in range(first, first + steps):
        lot.step = step
        drawn = draw(SOURCE, standing, seed=7, count=6, taste=taste)
        ended = asyncio.run(play_tasks(lot, drawn, rules, step))
        standing.pasts = remembered(standing.pasts, ended)
        standing.audits = leftout.audited(standing.audits, ended)
        row = leftout.play_part(ended, drawn.skipped, standing.audits, rules.n)
        found.append((row, ended, drawn))
    return standing, found


# ---- the drawing


@given(PASTS, st.integers(0, 200), st.integers(1, 60), st.integers(0, 3), st.integers(0, 3))
def test_a_draw_gives_the_asked_tasks_each_once_and_is_the_same_again(
    pasts, cursor, count, skip, seed
):
    taste = Taste(skip_flat=skip, audit=0.3)
    standings = [Standing(cursor=cursor, pasts=dict(pasts)) for _ in range(2)]
    one, two = (draw(SOURCE, s, seed=seed, count=count, taste=taste) for s in standings)
    assert one == two
    assert standings[0] == standings[1]
    played = [task.hash for task in one.tasks]
    assert len(set(played)) == count
    assert not set(played) & set(one.skipped)
    assert set(one.returned) <= set(played)
    for key in (*one.skipped, *one.returned):
        assert pasts[key][0] >= skip > 0


@given(PASTS, st.integers(0, 200), st.integers(0, 3))
def test_without_skipping_what_is_remembered_changes_nothing(pasts, cursor, seed):
    standing = Standing(cursor=cursor, pasts=dict(pasts))
    plain = draw(SOURCE, Standing(cursor=cursor), seed=seed, count=9)
    assert draw(SOURCE, standing, seed=seed, count=9) == plain
    assert standing.pasts == pasts


def test_a_task_with_flat_groups_is_skipped_and_returns_the_sooner_the_older_it_is():
    meetings = []
    for seed in range(300):
        standing = Standing(pasts={HASHES[0]: Past(2, 0, 1.0, 5.0)})
        for meeting in range(1, 12):
            drawn = draw(SOURCE, standing, seed=seed, count=60 - 1, taste=SKIPPING)
            if HASHES[0] in drawn.returned:
                meetings.append(meeting)
                break
            standing.cursor = -(-standing.cursor // 60) * 60  # the next epoch
    assert len(meetings) == 300
    shares = [meetings.count(k) / sum(m >= k for m in meetings) for k in (1, 2, 3)]
    assert shares == pytest.approx([0.2, 0.4, 0.6], abs=0.1)


def test_where_nothing_else_is_left_skipped_tasks_are_played():
    standing = Standing(pasts={key: Past(5, 0, 1.0, 5.0) for key in HASHES})
    drawn = draw(SOURCE, standing, seed=0, count=60, taste=SKIPPING)
    assert len(drawn.tasks) == 60
    assert not drawn.skipped


def test_a_resumed_run_draws_what_an_unbroken_one_does(tmp_path):
    rates = {key: i % 3 / 2 for i, key in enumerate(HASHES)}
    rules = Rules(n=8, pilot=3, seed=7)
    whole, all_steps = run(rates, 40, rules, SKIPPING)
    half, before = run(rates, 20, rules, SKIPPING)
    half.save(tmp_path)
    loaded = Standing()
    loaded.load(tmp_path)
    again, after = run(rates, 20, rules, SKIPPING, loaded, 21)
    assert [row for row, *_ in all_steps] == [row for row, *_ in before + after]
    assert json.dumps(whole.pasts) == json.dumps(again.pasts)
    assert whole.audits == again.audits


# ---- the memory


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_only_tasks_whose_last_group_was_flat_are_remembered(groups):
    pasts, row = {}, {}
    for task, flat in groups:
        pasts = past.ended(pasts, str(task), flat=flat, reward=0.5, tokens=3.0)
        row[str(task)] = row.get(str(task), 0) + 1 if flat else 0
    assert {key: found[0] for key, found in pasts.items()} == {k: n for k, n in row.items() if n}


def test_memory_is_bounded_and_forgets_what_is_oldest():
    pasts = {str(i): Past(1, 0, 0.0, 1.0) for i in range(past.MOST)}
    pasts = past.passing(pasts, ["0"])
    pasts = past.ended(pasts, "new", flat=True, reward=0.0, tokens=1.0)
    assert len(pasts) == past.MOST
    assert past.past_of(pasts, "0") is None
    assert past.past_of(pasts, "new") == Past(1, 0, 0.0, 1.0)


# ---- the pilot


@given(st.integers(1, 20), st.integers(0, 40))
def test_the_chance_of_a_flat_rest_is_that_of_the_posterior(equal, rest):
    rates = (np.arange(20_000) + 0.5) / 20_000
    shape = rates ** (equal - 0.5) * (1 - rates) ** -0.5
    numerical = (shape * rates**rest).sum() / shape.sum()
    assert pilot.flat_chance(equal, rest) == pytest.approx(numerical, rel=0.02)


@given(st.lists(st.floats(-5, 5), max_size=10), st.integers(1, 30), st.floats(0.05, 1))
def test_only_a_flat_pilot_ends_a_group_and_only_when_it_is_sure(rewards, rest, certainty):
    found = pilot.verdict(rewards, rest, certainty)
    sure = len(rewards) > 1 and pilot.flat_chance(len(rewards), rest) >= certainty
    assert found == ("spread" if not is_flat(rewards) else "flat" if sure else "undecided")


def test_a_pilot_of_which_episodes_broke_is_undecided():
    rules = Rules(n=32, pilot=4, audit=1e-9)
    drawn = Drawn(TASKS[:1])
    whole = asyncio.run(play_tasks(Lot({HASHES[0]: 1.0}), drawn, rules, 1))
    broken = asyncio.run(play_tasks(Lot({HASHES[0]: 1.0}, broken=0.5), drawn, rules, 1))
    assert (whole[0].way, len(whole[0].group.trajectories)) == ("stopped", 4)
    assert (broken[0].way, len(broken[0].group.trajectories)) == ("whole", 32)


@given(st.integers(2, 12), st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=1, max_size=9))
def test_members_come_in_order_and_stopped_groups_are_flat(first, rates):
    tasks = TASKS[: len(rates)]
    rules = Rules(n=16, pilot=first, audit=0.5)
    lot = Lot(dict(zip(HASHES, rates, strict=False)))
    ended = asyncio.run(play_tasks(lot, Drawn(tasks), rules, 3))
    assert [end.group.task for end in ended] == tasks
    assert lot.asked[0] == (len(tasks), 0, first)
    for end in ended:
        members = [t.member for t in end.group.trajectories]
        assert members == list(range(first if end.way == "stopped" else 16))
        if end.way in ("stopped", "audited"):
            assert is_flat([t.reward for t in end.group.trajectories[:first]])


def test_episodes_are_those_of_a_group_that_is_played_at_once():
    lot = Lot(dict.fromkeys(HASHES, 0.5))
    drawn = Drawn(TASKS[:5])
    with_pilot = asyncio.run(play_tasks(lot, drawn, Rules(n=12, pilot=6), 1))
    at_once = asyncio.run(play_tasks(lot, drawn, Rules(n=12), 1))
    for one, other in zip(with_pilot, at_once, strict=True):
        if one.way != "stopped":
            assert one.group == other.group


def test_a_task_that_came_back_is_played_in_full_whatever_its_pilot_says():
    drawn = Drawn(TASKS[:1], returned={HASHES[0]: (Past(3, 2, 1.0, 5.0), 0.3)})
    (end,) = asyncio.run(play_tasks(Lot({HASHES[0]: 1.0}), drawn, Rules(n=8, pilot=4), 1))
    assert (end.way, end.flat, end.chance) == ("returned", True, 0.3)
    assert len(end.group.trajectories) == 8


@pytest.mark.parametrize(("n", "certainty"), [(8, 1 / 3), (32, 1 / 3), (32, 0.5), (64, 0.2)])
def test_settings_take_every_pilot_that_can_decide_and_no_other(n, certainty):
    least = pilot.shortest(n, certainty)
    given = {"pilot_certainty": certainty}
    for size in range(2, n + 1):
        tried = {"select": {"n": n, "m": 4}, "train": {"pilot": size, **given}}
        if least <= size < n:
            assert TrainConfig.model_validate(tried).train.pilot == size
        else:
            with pytest.raises(ValueError, match=f"{least} to {n - 1}"):
                TrainConfig.model_validate(tried)


# ---- what was left out


@given(REWARDS, st.floats(0, 1), st.floats(0.05, 1))
def test_the_estimate_is_right_on_average_over_the_lot(rewards, guess, chance):
    played = group(rewards)
    own = leftout.earned(played.trajectories)
    audited = Ended(played, "audited", (), guess, chance).estimate
    stopped = Ended(played, "stopped", (), guess).estimate
    if own is not None:
        assert chance * audited + (1 - chance) * stopped == pytest.approx(own)


def test_with_nothing_left_out_the_estimate_is_the_mean_of_group_means():
    ended = [Ended(group(r), "whole", r) for r in ([0.0, 1.0], [1.0, 1.0], [0.0, 0.0])]
    row = leftout.play_part(ended, {}, {}, 2)
    assert row["play/reward"] == 0.5
    assert row["play/saved_tokens"] == row["play/skipped"] == row["play/pilot_flat"] == 0
    assert row["play/wrongly_skipped"] is None
    assert row["play/wrongly_stopped"] is None


@given(st.sampled_from(["score", "mask", "zero"]))
def test_contrast_is_what_selection_will_see(truncated):
    rows = [trajectory(TASKS[0], 0, 1.0), trajectory(TASKS[0], 1, 1.0, stop=Stop.MAX_TURNS)]
    found = leftout.comparable(rows, truncated)
    assert found == {"score": [1.0, 1.0], "mask": [1.0], "zero": [1.0, 0.0]}[truncated]


def test_saved_tokens_are_those_that_the_left_out_episodes_would_have_sampled():
    stopped = Ended(group([1.0] * 4), "stopped", [1.0] * 4, 1.0)
    row = leftout.play_part([stopped], {"x": Past(2, 1, 0.5, 7.0)}, {}, 16)
    assert row["play/saved_tokens"] == 12 * 5 + 16 * 7
    assert row["play/reward"] == 0.75


def flat_chance_given_pilot(rate: float, first: int, n: int) -> float:
    """Chance that a flat pilot's group is flat too, at a known chance of success."""
    lost = 1 - rate
    return (rate**n + lost**n) / (rate**first + lost**first)


def test_simulated_tasks_of_known_rates_give_the_known_shares_and_savings():
    n, first, rates = 16, 4, [0.0, 0.05, 0.5, 0.95, 1.0]
    of = {key: rates[i % 5] for i, key in enumerate(HASHES)}
    rules = Rules(n=n, pilot=first, audit=0.25, seed=7)
    standing, steps = run(of, 400, rules, Taste())
    every = [end for _, ended, _ in steps for end in ended]
    flat = {r: r**first + (1 - r) ** first for r in rates}
    wrong = sum(flat[r] * (1 - flat_chance_given_pilot(r, first, n)) for r in rates)
    wrong /= sum(flat.values())
    audits = [end for end in every if end.way == "audited"]
    assert fmean(not end.flat for end in audits) == pytest.approx(wrong, abs=0.06)
    stopped = [end for end in every if end.way == "stopped"]
    assert len(stopped) / len(every) == pytest.approx(fmean(flat.values()) * 0.75, abs=0.04)
    saved = sum(row["play/saved_tokens"] for row, *_ in steps)
    assert saved == len(stopped) * (n - first) * 5
    estimate = fmean(row["play/reward"] for row, *_ in steps)
    assert estimate == pytest.approx(fmean(rates), abs=0.012)
    assert leftout.wrong(standing.audits, "skipped") is None


def test_simulated_skipping_saves_flat_tasks_and_its_estimates_are_true():
    n, rates = 8, [0.0, 0.02, 0.5, 1.0]
    of = {key: rates[i % 4] for i, key in enumerate(HASHES)}
    standing, steps = run(of, 600, Rules(n=n, seed=7), Taste(skip_flat=2, audit=0.1))
    skipped = [key for *_, drawn in steps for key in drawn.skipped]
    assert {of[key] for key in skipped} <= {0.0, 0.02, 1.0}
    hard = [key for key in skipped if of[key] == 0.02]
    wrong = len(hard) / len(skipped) * (1 - 0.98**n)
    assert leftout.wrong(standing.audits, "skipped") == pytest.approx(wrong, abs=0.08)
    late = steps[100:]
    teaching = fmean(not end.flat for _, ended, _ in late for end in ended)
    assert teaching > 1.5 * fmean(1 - r**n - (1 - r) ** n for r in rates)
    estimate = fmean(row["play/reward"] for row, *_ in late)
    biased = fmean(t.reward for _, ended, _ in late for e in ended for t in e.group.trajectories)
    true = fmean(rates)
    assert abs(estimate - true) < 0.015 < abs(biased - true)
    assert all(math.isfinite(row["play/reward"]) for row, *_ in steps)


# ---- a whole run

ENVIRONMENT = '''
from agentrl import ListTasks, Task, ToolEnv, tool


class Some(ToolEnv):
    """Half of the tasks are flat."""

    max_turns = 1

    @classmethod
    def tasks(cls, split):
        return ListTasks([Task(f"Say something about {i}.", i) for i in range(60)], split=split)

    @tool
    def look(self, at: str) -> str:
        """Look at a thing."""
        return "nothing"

    def reward(self, task, trajectory):
        return len(trajectory.answer) / 100 if task.answer % 4 == 0 else 0.0
'''


def trained(out, env, name, select=None, **train_settings):
    config = {
        "env": {"name": env},
        "select": {"n": 6, "m": 4, **(select or {})},
        "rollout": {"max_turn_tokens": 8},
        "train": {"tasks_per_step": 6, "skip_flat": 1, "pilot": 2, "audit": 0.3, **train_settings},
        "heldout": {"tasks": 0},
        "run": {"out": str(out), "name": name},
    }
    resume = name if (out / name / "run.json").exists() else None
    train(TrainConfig.model_validate(config), resume=resume)
    rows = list(disk.rows(out / name / "metrics.jsonl"))
    return [
        {k: v for k, v in r.items() if not k.startswith(("time/", "update/peak"))} for r in rows
    ]


def test_a_resumed_run_is_the_unbroken_one_and_its_rows_say_what_was_left_out(tmp_path):
    (tmp_path / "envs.py").write_text(ENVIRONMENT)
    env = f"{tmp_path / 'envs.py'}:Some"
    straight = trained(tmp_path, env, "straight", steps=12, save_every=0)
    trained(tmp_path, env, "broken", steps=7)
    assert trained(tmp_path, env, "broken", steps=12) == straight
    weights = [
        (find(tmp_path / name / "checkpoints") / "policy" / "model.safetensors").read_bytes()
        for name in ("straight", "broken")
    ]
    assert weights[0] == weights[1]
    for row in straight:
        lines = list(disk.rows(tmp_path / "straight" / "groups" / f"{row['step']:06d}.jsonl"))
        sizes = Counter(line["task_id"] for line in lines)
        assert Counter(sizes.values())[2] == row["play/pilot_flat"] <= row["select/flat"]
        assert set(sizes.values()) <= {2, 6}
        assert len(sizes) == 6
    assert straight[0]["play/skipped"] == 0
    assert sum(row["play/skipped"] for row in straight) > 5
    assert sum(row["play/returned"] for row in straight) > 0
    assert 0 <= straight[-1]["play/wrongly_skipped"] < 0.5
    assert fmean(r["play/reward"] for r in straight) < fmean(r["reward"] for r in straight)


@pytest.mark.parametrize(
    "more",
    [
        {"select": {"rule": "random"}},
        {"select": {"m": 6, "rule": "all"}},
        {"select": {"token_budget": 700}},
        {"select": {"unbiased": True, "stats": "group"}},
        {"max_staleness": 1},
    ],
    ids=str,
)
def test_a_group_that_its_pilot_ended_is_never_trained_on(more, tmp_path):
    (tmp_path / "envs.py").write_text(ENVIRONMENT)
    rows = trained(tmp_path, f"{tmp_path / 'envs.py'}:Some", "run", steps=3, **more)
    assert sum(row["play/pilot_flat"] for row in rows) > 0
    assert sum(row["select/kept"] for row in rows) > 0
    for row in rows:
        lines = list(disk.rows(tmp_path / "run" / "groups" / f"{row['step']:06d}.jsonl"))
        sizes = Counter(line["task_id"] for line in lines)
        assert not any(line["kept"] for line in lines if sizes[line["task_id"]] == 2)


def test_parts_of_a_mixture_are_skipped_and_stopped_like_tasks_of_one(tmp_path):
    (tmp_path / "envs.py").write_text(ENVIRONMENT)
    (tmp_path / "more.py").write_text(ENVIRONMENT.replace("Say something", "Say it"))
    env = f"{tmp_path / 'envs.py'}:Some*2,{tmp_path / 'more.py'}:Some*1"
    rows = trained(tmp_path, env, "run", steps=12)
    assert sum(row["play/pilot_flat"] for row in rows) > 0
    assert sum(row["play/skipped"] for row in rows) > 0
