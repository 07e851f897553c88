"""`agentrl select` as a person meets it: the choice, the strip, one line a mistake."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.chosen import choose
from agentrl.cli import strip
from agentrl.cli.entry import main
from agentrl.cli.rows import Rows
from agentrl.cli.tint import tinted
from agentrl.config import TrainConfig
from agentrl.group import Group, seed_for
from agentrl.record import RunFolder
from agentrl.selection import effective_tokens, select
from agentrl.selection.rules import RULES
from agentrl.task import Task
from agentrl.tomlfile import dump_toml
from agentrl.trajectory import Branch, Span, Stop, Trajectory

DEAR = "--rewards 0,0,0,1,1,.5 --tokens 100,20,300,10,500,20 --m 4 --token-budget 150"


@pytest.fixture
def call(capfd):
    """Run the command in this process: exit code, standard output, standard error."""

    def run(line):
        return main(["select", *shlex.split(line)]), *capfd.readouterr()

    return run


@pytest.fixture
def shown(call):
    """Lines of a command that succeeds."""

    def run(line):
        code, out, err = call(line)
        assert (code, err) == (0, "")
        return out.splitlines()

    return run


@pytest.fixture
def found(call):
    """The document of a command that succeeds."""

    def run(line):
        code, out, err = call(f"{line} --json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


@pytest.fixture
def refused(call):
    """What a refused command says."""

    def run(line):
        code, out, err = call(line)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        return err.rstrip("\n")

    return run


@pytest.fixture
def file(tmp_path):
    """Write rows to a file; its path."""

    def write(*rows):
        path = tmp_path / "rows.jsonl"
        lines = (r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in rows)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


def trajectory(member, reward, length, stop=Stop.ANSWER, branches=1):
    sampled = Span("sampled", (5,) * length, (-1.0,) * length)
    branch = Branch().plus(Span("prompt", (1, 2)), sampled)
    return Trajectory(Task("q", id="q"), member, 0, (), (), stop, (branch,) * branches, reward)


CAP = 500
GROUPS = (
    [(0, 9), (0, 90), (1, 40), (1, 12), (0.5, 30), (1, 7), (0, 25), (0.5, 11)],
    [(0, 19), (0, 14), (0, 44), (0, 33), (1, 80), (0, 7), (0, 25), (0, 16)],
    [(1, 5)] * 8,
)


@pytest.fixture
def trained(tmp_path):
    """Record step 4 of a run as training does; the run's folder."""

    def run(**section):
        config = TrainConfig(select={"n": 8, "m": 4, **section})
        stops = [Stop.ANSWER] * 6 + [Stop.MAX_TURNS, Stop.CONTEXT]
        groups = [
            Group(
                Task("q", id="q"),
                tuple(trajectory(i, r, n, stops[i]) for i, (r, n) in enumerate(rows)),
            )
            for rows in GROUPS
        ]
        s = config.select
        chosen = choose(
            groups,
            s.question(CAP),
            stats=s.stats,
            loss="grpo",
            seed=seed_for(config.train.seed, 4, "0", 0),
            truncated=s.truncated,
            attention_length=s.attention_length,
        )
        folder = RunFolder(tmp_path / "run")
        folder.path.mkdir()
        folder.write_run({"status": "done"})
        folder.write_metrics({"step": 4, "plan/cap": CAP})
        folder.write_config(dump_toml(config), {})
        folder.write_episodes("groups", 4, chosen.trajectories, chosen.marks)
        return folder.path

    return run


LINES = """\
{"group": "a", "reward": 1.0, "tokens": 100}
{"group": "a", "reward": 0.0, "tokens": 10}

{"group": "b", "reward": 0.5}
{"group": "a", "reward": 0.5, "tokens": 20}
{"group": "b", "reward": 0.5, "valid": true}
{"group": "a", "reward": null}
{"group": "a", "reward": 1.0, "valid": false}
"""


def test_programs_get_one_document():
    done = subprocess.run(
        [sys.executable, "-m", "agentrl", "select", "--file", "-", "--m", "2", "--json"],
        capture_output=True,
        text=True,
        input=LINES,
    )
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert found["kept"] == [0, 1]
    assert found["weights"] == [1.0, 1.0]
    assert (found["tokens_kept"], found["cost_kept"]) == (110, 110)
    assert (found["q_kept"], found["upper_bound"], found["gap"]) == (0.5, 0.5, 0.0)
    assert set(found["excluded"]) == {"5", "6"}
    assert found["groups"]["b"] == {
        "kept": [],
        "spread_all": 0.0,
        "spread_kept": 0.0,
        "flat": True,
    }
    assert found["notes"] == {"b": "flat: equal rewards"}
    assert set(found) >= {
        *("kept", "weights", "q_kept", "q_all", "tokens_kept", "method"),
        *("upper_bound", "gap", "price", "groups", "excluded", "length_ratio"),
    }


def test_numbers_that_were_typed_in_need_no_settings_or_environments():
    script = (
        "import sys; from agentrl.cli import main; "
        "main(['select', '--rewards', '0,1', '--m', '2']);"
        "sys.exit(str([m for m in ('torch', 'gymnasium', 'pydantic') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


def test_a_group_is_drawn_as_bars_with_the_kept_rewards_marked(shown):
    assert shown("--rewards -1,0,1,.5 --m 2") == [
        "group 0: kept 2 of 4 · spread 0.5469 -> 1 · tokens 2 of 4",
        "  reward  ▁▅▆█  -1 to 1",
        "  kept    ^  ^",
        "  row         0    1    3    2",
        "  reward   [-1]    0  0.5  [1]",
        "kept rows 0 2, of 4",
        "Q 2 of 2.1875",
        "tokens 2 of 4 · max_variance: two-ended growth",
    ]


def test_costs_stand_below_the_rewards_so_that_one_sees_what_was_too_dear(shown):
    lines = shown(DEAR)
    assert lines[1:7] == [
        "  reward  ▁▁▁▅██  0 to 1",
        "  kept    ^^ ^^",
        "  tokens  ▁▂▅▁▁█  10 to 500",
        "  row          1     0     2     5     3     4",
        "  reward     [0]   [0]     0 [0.5]   [1]     1",
        "  tokens      20   100   300    20    10   500",
    ]
    assert "tokens 150 of 950 · 150 of a budget of 150 · max_variance: few rewards: exact" in lines
    assert "Short ones are rewarded" in " ".join(lines)


def test_the_price_of_a_token_is_told_in_words(shown, found):
    line = "--rewards 0,0,0,1,1,.5,.2,.9 --tokens 9,8,7,6,5,4,3,2 --m 8 --token-budget 20"
    text = " ".join(" ".join(shown(line)).split())
    price = found(line)["price"]
    assert price > 0
    assert f"price {price:.4g} reward² per token" in text
    assert "a row is worth its tokens where (reward - mean)² is above price x tokens" in text
    assert "price" not in " ".join(shown("--rewards 0,1 --m 2"))


def test_what_is_out_or_could_not_be_done_is_told_with_the_reason(shown, file):
    dear = [{"group": "a", "reward": i % 2, "tokens": 90} for i in range(4)]
    cheap = [{"group": "b", "reward": i % 2, "tokens": 5} for i in range(4)]
    path = file(*dear, *cheap, {"group": "b", "reward": None}, {"group": "c", "reward": 1})
    lines = shown(f"--file {path} --m 4 --floor 2 --token-budget 30")
    assert "out: 8: reward None: not scorable" in lines
    assert any(line.startswith("group a: kept 0 of 4 · floor") for line in lines)
    assert "group c: kept 0 of 1 · 1 usable of 1: 2 are needed" in lines


@given(st.data())
@settings(max_examples=60)
def test_nothing_is_wider_than_a_hundred_columns_and_every_row_has_its_place(data):
    sizes = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=3))
    names = data.draw(st.lists(st.text(max_size=70), min_size=3, max_size=3, unique=True))
    groups = [names[i] for i, size in enumerate(sizes) for _ in range(size)]
    of = {"min_size": len(groups), "max_size": len(groups)}
    reward = st.sampled_from([0.0, 1.0, -1.2345678e-7, 1e9]) | st.none()
    rewards = data.draw(st.lists(reward, **of))
    tokens = data.draw(st.lists(st.sampled_from([0, 1, 300, 10**6, 2**43]), **of))
    m, budget = data.draw(st.integers(1, 99)), data.draw(st.none() | st.integers(1, 2**52))
    chosen = select(rewards, tokens, m=m, token_budget=budget, groups=groups)
    kept = data.draw(st.lists(st.booleans(), **of))
    rows = Rows(rewards, tokens, groups, [True] * len(groups), kept=kept)
    lines = strip.strip(strip.Shown(chosen, rows, tokens, budget=budget)).splitlines()
    assert max(map(len, lines)) <= 100
    assert len([line for line in lines if line.startswith("group ")]) == len(set(groups))
    bars = [line for line in lines if line.startswith("  reward  ") and line[10] in strip.BARS]
    live = [g for g in chosen.report.groups.values() if not g.flat]
    assert len(bars) == len(live)


def test_many_rows_share_columns_and_a_word_says_so(shown):
    rewards = ",".join(str(i) for i in range(130))
    lines = shown(f"--rewards {rewards} --m 5")
    assert lines[1].split()[1] == "".join(
        strip.BARS[round(7 * (sum(some) / len(some)) / 129)]
        for some in (range(i, min(i + 3, 130)) for i in range(0, 130, 3))
    )
    assert lines[2].split()[1:] == ["+", "+^"]
    assert "  a column is 3 rows: ^ all of them are kept, + some" in lines


def test_the_rest_of_the_limits_have_flags(found):
    rows = "--rewards 0,0,1,1,0,1 --tokens 4,5,6,7,8,9"
    free = found(f"{rows} --m 6")
    assert len(free["kept"]) == 6
    assert len(found(f"{rows} --m 6 --cap 2")["kept"]) == 2
    assert found(f"{rows} --m 6 --cap-tokens 12")["tokens_kept"] <= 12
    assert found(f"{rows} --m 6 --token-budget none --cap none")["kept"] == free["kept"]
    padded = found(f"{rows} --m 6 --token-budget 20 --padded")
    assert padded["cost_kept"] == len(padded["kept"]) * 6
    unbiased = found(f"{rows} --m 2 --unbiased --seed 1")
    assert sum(unbiased["weights"]) != len(unbiased["weights"])
    assert unbiased["asked"]["unbiased"] is True
    drawn = found(f"{rows} --m 2 --within ht")
    assert all(weight > 0 for weight in drawn["weights"])


def test_floors_are_of_each_group(found, file):
    even = [{"group": "even", "reward": i % 2, "tokens": 10} for i in range(8)]
    rare = [{"group": "rare", "reward": float(i == 0) / 4, "tokens": 10} for i in range(8)]
    line = f"--file {file(*even, *rare)} --m 8 --token-budget 80"
    assert found(line)["groups"]["rare"]["kept"] == []
    assert len(found(f"{line} --floor 2")["groups"]["rare"]["kept"]) == 2
    assert found(f"{line} --floor-tokens 20")["groups"]["rare"]["kept"]


def test_effective_tokens_are_counted_where_attention_is_felt(found, shown):
    line = "--rewards 0,0,1,1 --tokens 10,100,10,100 --m 2 --effective-length 100"
    done = found(f"{line} --token-budget 30")
    assert done["kept"] == [0, 2]
    assert done["cost_kept"] == 2 * effective_tokens(10, 100) == 22
    assert done["tokens_kept"] == 20
    lines = shown(line)
    assert "  cost    ▁█▁█  11 to 200" in lines
    plain = found(line.replace("100 --m", "100 --effective-length 5 --m") + " --effective-length 0")
    assert plain["cost_kept"] == plain["tokens_kept"]


@pytest.mark.parametrize(
    ("policy", "kept", "out"),
    [("score", [0, 2], {}), ("mask", [0, 1], {"2": "truncated: masked"}), ("zero", [1, 2], {})],
)
def test_what_was_cut_off_counts_as_it_is_told(policy, kept, out, file, found):
    rows = [{"reward": 0.25}, {"reward": 0.5}, {"reward": 1.0, "truncated": True}]
    done = found(f"--file {file(*rows)} --m 2 --truncated {policy}")
    assert (done["kept"], done["excluded"]) == (kept, out)


def test_every_rule_is_compared_on_the_same_rows_under_the_same_limits(found, shown):
    both = found(f"{DEAR} --compare")
    assert list(both) == list(RULES)
    assert all(one["tokens_kept"] <= 150 and one["left_out"] == [] for one in both.values())
    assert max(both.values(), key=lambda one: one["q_kept"]) == both["max_variance"]
    lines = shown(f"{DEAR} --compare")
    assert lines[0].split() == ["rule", "Q", "bound", "gap", "kept", "tokens", "method"]
    assert lines[1].split()[:6] == ["max_variance", "0.6875", "0.6875", "0.0%", "4", "150"]
    assert {line.split()[0] for line in lines[1:]} == set(RULES)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--floor 2", "floor"),
        ("--floor-tokens 20", "floor_tokens"),
        ("--unbiased", "unbiased"),
        ("--within ht", "within"),
    ],
)
def test_a_rule_without_an_option_is_compared_without_it_and_that_is_said(
    option, name, found, shown, refused
):
    both = found(f"{DEAR} --compare {option}")
    assert {rule: one["left_out"] for rule, one in both.items()} == {
        rule: [] if rule == "max_variance" else [name] for rule in RULES
    }
    flag = option.split()[0]
    assert shown(f"{DEAR} --compare {option}")[-1] == f"* without {flag}: these rules have none"
    said = refused(f"{DEAR} --rule first {option}")
    assert said == f"{flag}: --rule first has none. Use --rule max_variance."


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"within": "cheapest"},
        {"rule": "random"},
        {"token_budget": 140},
        {"token_budget": 140, "floor": 3, "cap": 3, "attention_length": 50},
        {"token_budget": "auto", "within": "random", "cap_tokens": 90},
        {"within": "ht", "token_budget": 140},
        {"unbiased": True, "stats": "group", "token_budget": 140},
        {"truncated": "mask", "floor_tokens": 30, "token_budget": 100},
        {"truncated": "zero"},
    ],
)
def test_a_recorded_step_is_explained_by_the_settings_that_chose_it(section, trained, call):
    run = trained(**section)
    code, out, _ = call(f"{run} --step 4 --json")
    found = json.loads(out)
    rows = [json.loads(line) for line in (run / "groups/000004.jsonl").read_text().splitlines()]
    kept = [i for i, row in enumerate(rows) if row["kept"]]
    assert code == 0
    assert found["kept"] == kept == found["recorded"]["kept"]
    assert found["recorded"]["same"]
    assert found["weights"] == [rows[i]["weight"] for i in kept]
    code, out, _ = call(f"{run} --step 4")
    assert out.splitlines()[-1] == "the run kept the same rows"


def test_flags_override_a_runs_settings_and_where_the_run_chose_otherwise_is_shown(trained, shown):
    lines = shown(f"{trained(within='cheapest')} --step 4 --m 2 --rule first")
    assert lines[2:5] == [
        "  reward  ▁▁▁▅▅███  0 to 1",
        "  kept    ^ ^",
        "  in run  ^^   ^^",
    ]
    assert lines[-1] == (
        "the run kept other rows (here --m 2 --rule first): 6 only there, 2 only here"
    )


def test_what_a_run_asked_and_another_rule_has_not_got_is_left_out(trained, shown, refused):
    run = trained(floor=2, token_budget=140)
    lines = shown(f"{run} --step 4 --rule first")
    assert lines[-1] == "without the run's floor, within: this rule has none"
    assert refused(f"{run} --step 4 --rule first --floor 2").startswith("--floor: --rule first ")
    assert len(shown(f"{run} --step 4 --compare")) == len(RULES) + 2


def test_limits_of_a_run_can_be_lifted(trained, found):
    run = trained(token_budget=40, cap=2)
    bound = found(f"{run} --step 4")
    assert bound["tokens_kept"] <= 40
    free = found(f"{run} --step 4 --token-budget none --cap none")
    assert len(free["groups"]["q"]["kept"]) == 4
    derived = found(f"{run} --step 4 --token-budget auto")
    assert derived["asked"]["token_budget"] == CAP


def test_a_run_is_found_under_out_and_without_settings_needs_m(trained, call, refused):
    run = trained()
    line = f"{run.name} --out {run.parent} --step 4"
    assert call(line)[0] == 0
    (run / "config.toml").unlink()
    assert refused(line).startswith("--m: required")
    assert call(f"{line} --m 2")[0] == 0


def test_groups_whose_tasks_share_a_name_stay_apart(trained, found):
    assert list(found(f"{trained()} --step 4")["groups"]) == ["q", "q #2", "q #3"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--rewards 0,1", "--m: required"),
        ("--m 2", "agentrl select: no rewards. Give one of --rewards, --file, or RUN with --step."),
        ("--rewards 0,x --m 2", "--rewards: 'x' is not a number."),
        ("--rewards 0,1 --tokens 1 --m 2", "--tokens: 1 numbers for 2 rewards. "),
        ("--rewards 0,1 --tokens 1,-2 --m 2", "--tokens: -2 is not a number of tokens. "),
        ("--rewards 0,1 --m 0", "--m: 0 is not a whole number of at least 1."),
        ("--rewards 0,1 --m 1 --rule frst", "--rule: 'frst' is not one. Did you mean first?"),
        ("--rewards 0,1 --m 1 --within x", "--within: 'x' is not one. Known: auto, "),
        ("--rewards 0,1 --m 1 --seed -1", "--seed: -1 is not a whole number of at least 0."),
        ("--rewards 0,1 --m 1 --token-budget 0", "--token-budget: 0 is not "),
        ("--rewards 0,1 --m 1 --token-budget auto", "--token-budget auto: it comes of a run's "),
        ("--rewards 0,1 --m 1 --cap 0", "--cap: 0 is not a whole number of at least 1. Write "),
        ("--rewards 0,1 --m 1 --cap-tokens 1.5", "--cap-tokens: '1.5' is not a whole number."),
        ("--rewards 0,1 --m 1 --floor -1", "--floor: -1 is not a whole number of at least 0."),
        ("--rewards 0,1 --m 1 --floor 2", "--floor: 2 rows are more than the 1 that may be kept."),
        (
            "--rewards 0,1 --m 1 --floor-tokens 9 --cap-tokens 5",
            "--floor-tokens: 9 are more than --cap-tokens 5.",
        ),
        ("--rewards 0,1 --m 1 --effective-length -5", "--effective-length: -5 is not a whole "),
        (
            "--rewards 0,1 --tokens 1,9007199254740992 --m 2 --effective-length 5",
            "--effective-length: ",
        ),
        ("--rewards 0,1 --m 2 --padded --unbiased", "--padded: rows drawn by chance "),
        ("--rewards 0,1 --m 1 --unbiased", "--unbiased: --m is 1. "),
        (
            "--rewards 0,1 --m 2 --unbiased --within cheapest",
            "--unbiased: --within cheapest gives some rows no chance. Use auto.",
        ),
        ("--rewards 0,1 --m 2 --truncated zero", "--truncated: --rewards cannot say which "),
        ("--rewards 0,1 --m 2 --step 3", "--step: it is a step of RUN. "),
        ("--file x --tokens 1 --m 2", "--tokens: it goes with --rewards. "),
        ("--rewards 0,1 --m 2 --rule first --compare", "--rule: --compare shows every rule. "),
        ("--rewards 0,1 --m 2 --flor 1", "--flor: no such option of `agentrl select`. Did you "),
        ("--file no/where.jsonl --m 2", "--file no/where.jsonl: cannot be read. "),
        ("no_run --step 3", "no_run: no such run. "),
    ],
)
def test_what_was_given_wrong_is_told_in_one_line_that_names_the_flag(line, message, refused):
    assert refused(line).startswith(message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":2: not JSON. "),
        ("3", ":2: not a row with a reward"),
        ("[" * 10**5, ":2: not a row. It is nested too deeply."),
        ('{"tokens": 3}', ":2: not a row with a reward"),
        ('{"reward": "1"}', ':2: reward "1" is not one. '),
        ('{"reward": 1, "token": 3}', ":2: token is not a field. Did you mean tokens?"),
        ('{"reward": 1, "valid": 1}', ":2: valid 1 is not one. "),
        ('{"reward": 1, "truncated": "no"}', ':2: truncated "no" is not one. '),
        ('{"reward": 1, "tokens": -3}', ":2: tokens: -3 is not a number of tokens. "),
        ('{"reward": true}', ":2: reward true is not one. "),
    ],
)
def test_a_bad_line_is_told_with_its_number(line, message, file, refused):
    path = file({"reward": 1}, line)
    assert refused(f"--file {path} --m 2").startswith(f"{path}{message}")


def test_a_policy_for_what_was_cut_off_is_one_of_three(file, refused):
    said = refused(f"--file {file({'reward': 1})} --m 2 --truncated zeor")
    assert said == "--truncated: 'zeor' is not one. Did you mean zero?"


def test_bytes_that_are_no_text_are_one_line(tmp_path, refused):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"reward": 1, "group": "\xff"}\n')
    assert (
        refused(f"--file {path} --m 2") == f"--file {path}: not UTF-8 text (byte 24). Save it so."
    )


def test_a_group_may_be_called_by_any_text_that_json_can_hold(file, found, shown):
    path = file(*({"group": "a\u2028b", "reward": r, "tokens": 1} for r in (0, 1)))
    assert set(found(f"--file {path} --m 2")["groups"]) == {"a\u2028b"}
    assert shown(f"--file {path} --m 2")[0].startswith("group a?b: ")


def test_a_step_that_is_not_there_or_not_whole_is_one_line(trained, refused):
    run = trained()
    said = refused(f"{run} --step 9")
    assert said == f"--step 9: {run} has no such step. It has 4 to 4."
    assert "which step" in refused(f"{run}")
    path = run / "groups" / "000004.jsonl"
    for line, why in (
        ("{}", "no task_id. Give the folder of a run as it was written."),
        ("{", "not JSON. "),
    ):
        path.write_text(f"{line}\n")
        assert refused(f"{run} --step 4").startswith(f"{path}:1: {why}")


def test_a_step_of_a_run_has_a_title_and_the_advantage_that_each_row_was_trained_with(
    trained, shown
):
    lines = shown(f"{trained()} --step 4")
    assert lines[0].endswith("step 4: 24 trajectories in 3 groups, at most 4 of each are kept")
    rewards, adv = (x.split()[1:] for x in lines[6:9] if x.split()[0] in ("reward", "adv"))
    assert len(adv) == sum(reward.startswith("[") for reward in rewards) == 4
    signs = [float(x) > 0 for x in adv]
    assert signs == sorted(signs)


def test_a_narrow_terminal_gets_narrower_strips(monkeypatch):
    rows = Rows([i % 2 for i in range(60)], [1] * 60, ["a"] * 60, [True] * 60, [False] * 60)
    chosen = select(rows.rewards, rows.tokens, m=4, groups=rows.groups)
    lines = strip.strip(strip.Shown(chosen, rows, rows.tokens, width=60)).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert len(lines[1].split()[1]) == 20
    assert "a column is 3 rows" in lines[3]


def test_colours_say_nothing_that_words_do_not():
    text = "group a: kept 1 of 2 · spread 0 -> 1\n  reward  ▁█\n  kept     ^\n  reward   0 [1]"
    assert tinted(text).plain == text
    assert {span.style for span in tinted(text).spans} >= {"bold", "cyan", "bold green"}
