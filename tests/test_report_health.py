"""Each figure of health has a range that is normal, and says so in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentrl.metrics import METRICS
from agentrl.report.health import RULES, findings
from tests.reported import UPDATE, facts_with

# What a healthy step has; each case below spoils one figure of it.
HEALTHY = {
    **{"reward": 0.5, "select/kept": 8, "select/of": 32, "select/flat": 1, "select/gap": 0.0},
    **{"select/length_ratio": 1.0, "select/starved": 0, "plan/oversize": 0},
    **{"update/grad_norm": 0.5, "update/clip_fraction": 0.0, "update/entropy": 0.7},
    **{"update/oom_retries": 0, "update/peak_bytes": 90, "plan/predicted_bytes": 100},
    **{"mismatch/k3": 1e-6, "mismatch/capped": 0.0, "mismatch/masked": 0, "stale/max": 1},
    **{"stale/dropped": 0, "rollout/length_bias": 1.0, "env/truncated": 0},
    **{"env/tool_failures": 0.0, "env/infra_errors": 0, "engine/servers_lost": 0},
}
SPOILT = [
    ("Drift", {"mismatch/k3": 0.5}),
    ("Ratios cut", {"mismatch/capped": 0.3}),
    ("Rows masked", {"mismatch/masked": 2}),
    ("Gradients clipped", {"update/grad_norm": 3.0}),
    ("Updates that were lost", {"update/grad_norm": None}),
    ("Tokens whose ratio", {"update/clip_fraction": 0.5}),
    ("Entropy", {"update/entropy": 0.001}),
    ("Groups without contrast", {"select/flat": 4}),
    ("Distance", {"select/gap": 0.2}),
    ("Length of kept rows", {"select/length_ratio": 0.5}),
    ("Length of episodes", {"rollout/length_bias": 0.5}),
    ("Episodes that a limit ended", {"env/truncated": 16}),
    ("Calls that failed", {"env/tool_failures": 0.5}),
    ("Episodes that infrastructure", {"env/infra_errors": 4}),
    ("Oldest trajectory", {"stale/max": 5}),
    ("Trajectories refused", {"stale/dropped": 3}),
    ("Trajectories longer", {"plan/oversize": 1}),
    ("Memory used", {"update/peak_bytes": 200}),
    ("Updates done again", {"update/oom_retries": 1}),
    ("Servers lost", {"engine/servers_lost": 1}),
]


def found(*rows):
    return findings([facts_with(rows, **{"train.max_staleness": 1})])


def test_the_cases_use_names_that_rows_have():
    assert set(HEALTHY) <= set(METRICS)
    assert len(found(*[HEALTHY] * 12)) == len(RULES)
    assert len(UPDATE) > 0


def test_a_healthy_run_has_nothing_to_look_at():
    for one in found(*[HEALTHY] * 12):
        assert (one.states, one.cure) == (("fine",), ""), one.name


@pytest.mark.parametrize(("name", "spoilt"), SPOILT)
def test_what_is_out_of_range_is_found_with_what_to_do(name, spoilt):
    looks = [one for one in found(*[HEALTHY | spoilt] * 12) if "look" in one.states]
    assert [one.name.startswith(name) for one in looks] == [True]
    assert looks[0].cure


def test_one_gradient_far_out_of_line_is_found():
    looks = [o for o in found(*[HEALTHY] * 30, HEALTHY | {"update/grad_norm": 99.0}) if o.cure]
    assert [one.name for one in looks] == ["Largest gradient against the median"]


def test_a_figure_that_a_run_does_not_have_is_not_shown():
    assert found({"reward": 1.0})[0].name == "Updates that were lost"
    unknown_peak = HEALTHY | {"update/peak_bytes": 0}
    assert not any(one.name.startswith("Memory") for one in found(unknown_peak))


def test_of_two_runs_each_has_its_figure_and_another_kind_has_none():
    good, bad = facts_with([HEALTHY]), facts_with([HEALTHY | {"plan/oversize": 7}])
    other = replace(good, kind="evaluation")
    one = next(o for o in findings([good, bad, other]) if "micro-batch" in o.name)
    assert one.shown[:2] == ("0", "7")
    assert one.states == ("fine", "look", None)


def test_every_rule_says_what_is_normal_in_sentences():
    for rule in RULES:
        assert rule.normal.endswith("."), rule.name
        assert rule.cure.endswith(".") or rule.most == float("inf"), rule.name
