"""What a report reads from folders: all that is there, and a line for what is not."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl import disk
from agentrl.errors import UsageError
from agentrl.report.episodes import kept_by_rank
from agentrl.report.facts import facts_of, labelled
from agentrl.report.series import STEPS, TIMES, TOKENS, curve, heldout, kept_rewards, of
from agentrl.report.transcripts import CHARACTERS, MESSAGES
from tests.reported import UPDATE, line, write_evaluation, write_heldout, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    worth = {0: [0.0, 0.0, 1.0, 0.5], 3: [1.0, 0.0, 1.0, 1.0]}
    return write_run(tmp_path_factory.mktemp("runs") / "run", heldout=worth)


def test_a_run_says_what_was_played_kept_and_measured(run):
    facts = facts_of(str(run))
    assert (facts.kind, facts.status, facts.done, facts.missing) == ("train", "done", 3, ())
    assert [played.step for played in facts.steps] == [1, 2, 3]
    assert {played.episodes for played in facts.steps} == {24}
    kept = [line["select/kept"] for line in facts.rows]
    assert [played.kept for played in facts.steps] == kept
    assert [(p.step, p.accuracy.mean) for p in facts.heldout] == [(0, 0.25), (3, 0.75)]


def test_calls_are_counted_by_tool_and_outcome(run):
    assert facts_of(str(run)).calls == {("look", "ok"): 72, ("look", "error"): 72}


def test_curves_lie_over_steps_seconds_and_trained_tokens(run):
    facts = facts_of(str(run))
    assert curve(facts, of("reward"), STEPS).x == (1, 2, 3)
    assert curve(facts, of("reward"), TIMES[-1]).x == pytest.approx((3.5, 7, 10.5))
    trained = UPDATE["trained_tokens"]
    assert curve(facts, of("reward"), TOKENS).x == (trained, 2 * trained, 3 * trained)
    assert heldout(facts, TOKENS).x == (0, 3 * trained)
    assert heldout(facts).low[0] < 0.25 < heldout(facts).high[0]
    lines = disk.rows(run / "groups" / "000002.jsonl")
    assert kept_rewards(facts).y[1] == fmean(r["reward"] for r in lines if r["kept"])


def test_a_line_cut_short_is_passed_over_and_a_broken_one_is_counted(tmp_path):
    run = write_run(tmp_path / "run", heldout={0: [1.0, 0.0], 3: [1.0, 1.0]})
    for path in (run / "metrics.jsonl", run / "heldout" / "000003.jsonl"):
        with path.open("a") as file:
            file.write('no json\n[1]\n{"step": 4, "rew')
    with (run / "groups" / "000001.jsonl").open("a") as file:
        file.write('{"task_id": "t"}\n')
    facts = facts_of(str(run))
    assert facts.done == 3
    assert facts.heldout[-1].accuracy.mean == 1.0
    assert facts.missing == (
        "000001.jsonl: 1 line could not be read and is left out.",
        "000003.jsonl: 2 lines could not be read and are left out.",
        "metrics.jsonl: 2 lines could not be read and are left out.",
    )


def test_what_is_missing_is_one_line_each(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "metrics.jsonl").unlink()
    (run / "config.toml").write_text("not = = toml")
    facts = facts_of(str(run))
    assert [text.partition(" ")[0] for text in facts.missing] == ["metrics.jsonl", "config.toml:"]
    assert (facts.rows, facts.settings) == ((), {})


def test_a_run_without_groups_says_so(tmp_path):
    run = write_run(tmp_path / "run")
    for path in (run / "groups").iterdir():
        path.unlink()
    (missing,) = facts_of(str(run)).missing
    assert missing.startswith("groups/ is missing")


def test_a_run_whose_process_is_gone_is_killed_and_one_step_is_enough(tmp_path):
    facts = facts_of(str(write_run(tmp_path / "run", steps=1, status="running")))
    assert (facts.status, facts.done) == ("killed", 1)


def test_an_evaluation_is_unfinished_until_it_has_a_summary(tmp_path):
    folder = write_evaluation(tmp_path / "eval", [line("a", 1.0), line("b", None)])
    facts = facts_of(str(folder))
    assert (facts.kind, facts.status) == ("evaluation", "not finished")
    assert facts.heldout[0].accuracy.mean == 1.0
    (folder / "summary.json").write_text("{}")
    assert facts_of(str(folder)).status == "done"


def test_what_is_no_run_is_refused_with_what_to_name(tmp_path):
    with pytest.raises(UsageError, match="no such run"):
        facts_of(str(tmp_path / "none"))
    (tmp_path / "suite.json").write_text('{"names": ["a", "b"]}')
    with pytest.raises(UsageError, match="a suite of evaluations"):
        facts_of(str(tmp_path))


def test_runs_of_one_name_are_told_apart(tmp_path):
    every = [facts_of(str(write_run(tmp_path / at / "run", steps=1))) for at in ("a", "b")]
    assert labelled(every) == ["a/run", "b/run"]
    assert len(set(labelled([every[0], every[0]]))) == 2


REWARDS = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.booleans()), min_size=2)


@given(st.lists(REWARDS, min_size=1, max_size=4))
def test_of_groups_with_contrast_the_ranks_hold_the_share_that_was_kept(groups):
    contrast = [g for g in groups if len({reward for reward, _ in g}) > 1]
    parts = 4
    found = kept_by_rank([g * parts for g in groups], parts)  # so that each fills all parts
    if not contrast:
        assert set(found) == {None}
        return
    kept = sum(kept for g in contrast for _, kept in g)
    assert fmean(found) == pytest.approx(kept / sum(map(len, contrast)))


def test_the_highest_and_the_lowest_that_are_kept_lie_at_the_ends():
    group = [(float(reward), reward in (0, 7)) for reward in range(8)]
    assert kept_by_rank([group], 4) == (0.5, 0, 0, 0.5)


def told(facts, why):
    return [(one.when, one.task, one.reward) for one in facts.told if one.why == why]


def test_best_worst_and_most_changed_are_of_different_tasks(tmp_path):
    run = write_run(tmp_path / "run", heldout={0: [0, 0, 1, 1, 1], 3: [1, 0.5, 1, 1, 0]})
    facts = facts_of(str(run))
    assert told(facts, "best") == [("", task, 1) for task in ("t0", "t2", "t3")]
    assert told(facts, "worst") == [("", "t4", 0), ("", "t1", 0.5)]
    assert told(facts, "changed") == [
        *(("before", "t0", 0), ("after", "t0", 1)),
        *(("before", "t4", 1), ("after", "t4", 0)),
        *(("before", "t1", 0), ("after", "t1", 0.5)),
    ]


def test_no_episode_is_both_best_and_worst(tmp_path):
    mixed = [line(f"t{i}", reward) for i, reward in enumerate((1.0, 0.5, 0.0))]
    facts = facts_of(str(write_evaluation(tmp_path / "mixed", mixed)))
    assert [task for _, task, _ in told(facts, "best")] == ["t0", "t1"]
    assert [task for _, task, _ in told(facts, "worst")] == ["t2"]
    alike = facts_of(str(write_evaluation(tmp_path / "alike", [line("t", 1.0), line("u", 1.0)])))
    assert (len(told(alike, "best")), told(alike, "worst")) == (2, [])


def test_transcripts_are_short(tmp_path):
    long = [{"role": "assistant", "content": "x" * 5000} for _ in range(50)]
    folder = write_evaluation(tmp_path / "eval", [line("a", 1.0, messages=long)])
    (one,) = facts_of(str(folder)).told
    assert len(one.said) == MESSAGES + 1
    assert "40 messages are left out" in [said.role for said in one.said]
    assert all(len(said.text) < CHARACTERS + 50 for said in one.said)


def test_lines_of_odd_shape_harm_nothing(tmp_path):
    odd = [
        line("a", 1.0, messages=["what", {"role": 3}, {"role": "tool"}], outcomes=[3, [4]]),
        line("b", 0.0, messages=[{"role": "assistant", "tool_calls": [1, {"function": 2}]}]),
        line("c", float("nan")),
        line("d", 1.0, messages=3),
        line("e", 1.0, turns="many"),
    ]
    facts = facts_of(str(write_evaluation(tmp_path / "eval", odd)))
    assert facts.heldout[0].episodes == 3
    assert facts.missing == ("episodes.jsonl: 2 lines could not be read and are left out.",)


@pytest.mark.slow
def test_a_hundred_thousand_episodes_fit_into_a_gigabyte(tmp_path):
    run = write_run(tmp_path / "run", steps=1)
    said = [{"role": "user", "content": "word " * 400}]
    rows = (
        line(f"t{i % 5000}", float(i % 3 == 0), member=i, messages=said) for i in range(100_000)
    )
    (run / "heldout").mkdir()
    with (run / "heldout" / "000000.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    (run / "heldout" / "000001.jsonl").hardlink_to(run / "heldout" / "000000.jsonl")
    script = (
        "import resource, sys; from agentrl.cli import main; "
        "assert main(['report', sys.argv[1]]) == 0; "
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_000_000"
    )
    subprocess.run([sys.executable, "-c", script, str(run)], check=True, timeout=500)


def test_a_measurement_without_a_whole_line_is_none(tmp_path):
    run = write_run(tmp_path / "run", heldout={0: [0.0]})
    write_heldout(run / "heldout" / "000002.jsonl", [])
    assert [played.step for played in facts_of(str(run)).heldout] == [0]
