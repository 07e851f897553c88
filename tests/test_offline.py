"""Groups written for later, and what is learned from them."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentrl import disk, rollout, sft
from agentrl.cli.entry import main
from agentrl.dataset import Example, read
from agentrl.dialect import Dialect
from agentrl.errors import RunError, UsageError
from agentrl.keeping import rule_of
from agentrl.offline import RolloutConfig, SftConfig
from agentrl.record import Mark, episode_row
from agentrl.rollout_manifest import manifest_of
from agentrl.sample import Sample
from agentrl.task import Task
from agentrl.trajectory import Branch, Span, Stop, Trajectory
from agentrl.update import Learner
from agentrl.weights import Policy, load_policy
from tests.models import VOCABULARY, llama

DIALECT = Dialect("v", "t", VOCABULARY)


def line(task="a", member=0, reward=1.0, ids=(3, 4, 5), mask=(0, 1, 1), **more):
    row = {
        "task_id": task,
        "member": member,
        "reward": reward,
        "correct": reward >= 1,
        "status": "ok",
        "input_ids": list(ids),
        "loss_mask": list(mask),
        "logprobs": [None if not m else -1.0 for m in mask],
    }
    return row | more


def written(folder, rows, name="g.jsonl", end="", dialect=DIALECT, **more):
    """A file of trajectories with its manifest, made by hand."""
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + end)
    facts = {
        "schema": 1,
        "dialect": dialect.as_json(),
        "env": {"name": "tool_math", "options": {}},
        "rollout": {},
        "weights": {"model": "other"},
    }
    manifest_of(file).write_text(json.dumps(facts | more))
    return str(file)


def dataset(file, keep="", heldout=0.0, seed=0):
    files = [file] if isinstance(file, str) else file
    return read(files, rule_of(keep), DIALECT, entries=VOCABULARY, heldout=heldout, seed=seed)


# ---- the rule


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("", True),
        ("reward>=1", True),
        ("reward > 1", False),
        ("correct=true", True),
        ("correct!=true", False),
        ("reward>=1,turns<=2", True),
        ("reward>=1,turns<2", False),
        ("stop=answer", True),
        ("stop!=answer", False),
        ("reward_parts.style>=0.5", True),
        ("reward_parts.speed>=0", False),
        ("env=tool_math", False),
        ("reward>=-1e3", True),
    ],
)
def test_a_rule_keeps_what_meets_all_its_conditions(rule, kept):
    row = line(turns=2, stop="answer", reward_parts={"style": 0.5})
    assert rule_of(rule).keeps(row) == kept


def test_what_infrastructure_broke_is_never_kept():
    assert not rule_of("").keeps(line(status="error"))
    assert not rule_of("reward>=0").keeps(line() | {"reward": None})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("reward", "'reward' is no condition. Write reward>=1."),
        ("rewrad>=1", "rewrad is not a field. Did you mean reward?"),
        ("reward>=high", "'high' is no number."),
        ("stop>answer", "stop is a word. Compare it with = or !=."),
        ("__import__('os')", "is no condition."),
    ],
)
def test_a_rule_that_is_none_is_told(rule, message, capsys):
    assert main(["sft", "--data", "x", "--out", "y", "--keep", rule]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"--keep {rule}: ")
    assert message in err
    assert err.count("\n") == 1


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_comparisons_are_those_of_numbers(value, bound):
    row = line(reward=value)
    assert rule_of(f"reward>={bound!r}").keeps(row) == (value >= bound)
    assert rule_of(f"reward<{bound!r}").keeps(row) == (value < bound)


# ---- the files


@given(st.integers(0, 9), st.floats(0, 0.9), st.integers(1, 30))
def test_tasks_are_never_on_both_sides_and_something_is_trained_on(
    tmp_path_factory, seed, heldout, tasks
):
    rows = [line(str(i % tasks), i) for i in range(2 * tasks)]
    found = dataset(written(tmp_path_factory.mktemp("f"), rows), heldout=heldout, seed=seed)
    sides = [{e.task for e in side} for side in (found.train, found.heldout)]
    assert not sides[0] & sides[1]
    assert found.train
    assert found.kept == found.rows == 2 * tasks


def test_a_task_is_held_out_whatever_other_files_there_are(tmp_path):
    one = written(tmp_path, [line(str(i)) for i in range(40)], "one.jsonl")
    two = written(tmp_path, [line(str(i)) for i in range(20, 90)], "two.jsonl")
    alone = {e.task for e in dataset(one, heldout=0.3).heldout}
    both = {e.task for e in dataset([one, two], heldout=0.3).heldout}
    assert alone
    assert alone == {task for task in both if int(task) < 40}


def test_a_last_line_that_was_cut_off_is_passed_over(tmp_path):
    rows = [line(member=i) for i in range(3)]
    assert dataset(written(tmp_path, rows, end=json.dumps(line())[:40])).rows == 3
    assert dataset(written(tmp_path, rows, end='{"task_id": "\xc3')).rows == 3


def trajectory(*branches):
    return Trajectory(Task("x"), 0, 0, (), (), Stop.ANSWER, branches, reward=1.0)


SPANS = st.lists(
    st.builds(
        lambda kind, ids: Span(kind, tuple(ids), (-0.5,) * len(ids) if kind == "sampled" else None),
        st.sampled_from(["sampled", "observation", "scaffold"]),
        st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=5,
)


@given(st.lists(SPANS, min_size=1, max_size=3))
def test_what_was_written_is_read_branch_by_branch(tmp_path_factory, branches):
    every = [Branch((Span("prompt", (1, 2)), *spans)) for spans in branches]
    row = episode_row(trajectory(*every), Mark(), tokens=True)
    file = written(tmp_path_factory.mktemp("f"), [line(), json.loads(disk.line(row))])
    sampled = [branch for branch in every if any(branch.loss_mask)]
    (_, *examples) = dataset(file).train
    samples = [s for e in examples for s in e.samples]
    assert [list(s.input_ids) for s in samples] == [b.input_ids for b in sampled]
    assert [list(s.loss_mask) for s in samples] == [b.loss_mask for b in sampled]


BAD_LINES = {
    "no tokens": ({k: v for k, v in line().items() if k != "logprobs"}, "it has no tokens."),
    "ids above the vocabulary": (line(ids=(3, VOCABULARY, 5)), f"token {VOCABULARY} is not one"),
    "ids below 0": (line(ids=(3, -1, 5)), "token -1 is not one"),
    "ids that are no numbers": (line(ids=(3, "x", 5)), "token 'x' is not one"),
    "lengths": (line(mask=(0, 1)), "differ in length"),
    "mask": (line() | {"loss_mask": [0, 1, 2]}, "holds more than 0 and 1"),
    "a sampled first token": (line(mask=(1, 1, 1)), "nothing comes before what was sampled"),
    "nothing sampled": (line(mask=(0, 0, 0)), "nothing comes before what was sampled"),
    "branches": (line(branches=[1, 1]), "its branches have not the length"),
    "another kind of line": ({"prompt": "x"}, "not a trajectory"),
    "no object": ([1], "not a trajectory"),
}


@pytest.mark.parametrize("kind", BAD_LINES)
def test_a_line_that_cannot_be_used_is_told_with_its_place(kind, tmp_path):
    row, message = BAD_LINES[kind]
    file = written(tmp_path, [line(), row])
    with pytest.raises(UsageError, match="2: .*" + message):
        dataset(file)


def spoiled(folder, kind):
    """Arguments of a command that must be refused, and what is said."""
    good = [line(str(i)) for i in range(3)]
    if kind == "missing":
        return ["--data", str(folder / "none.jsonl")], "no such file"
    if kind == "torn":
        file = written(folder, good)
        text = (folder / "g.jsonl").read_text().splitlines(keepends=True)
        (folder / "g.jsonl").write_text(text[0][:30] + "\n" + text[1])
        return ["--data", file], "g.jsonl:1: not a line of JSON. Only the last line"
    if kind == "no manifest":
        file = written(folder, good)
        manifest_of(folder / "g.jsonl").unlink()
        return ["--data", file], "no g.manifest.json beside it"
    if kind == "another manifest":
        return ["--data", written(folder, good, schema=7)], "its schema is 7"
    if kind == "another tokenizer":
        return ["--data", written(folder, good)], "whose vocabulary is not that of --model"
    if kind == "no data":
        return [], "--data: a file must be named"
    return ["--data", written(folder, good), "--update.clip_low", "0.1"], "cross-entropy"


@pytest.mark.parametrize(
    "kind",
    ["missing", "torn", "no manifest", "another manifest", "another tokenizer", "no data", "flag"],
)
def test_a_file_that_cannot_be_used_is_told_in_a_line_and_nothing_is_written(
    kind, tmp_path, capsys, tiny_dialect
):
    words, message = spoiled(tmp_path, kind)
    if kind == "torn":
        manifest = manifest_of(tmp_path / "g.jsonl")
        facts = json.loads(manifest.read_text()) | {"dialect": tiny_dialect}
        manifest.write_text(json.dumps(facts))
    assert main(["sft", *words, "--out", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


# ---- playing, and learning from it


def played(folder, name="groups.jsonl", **collect):
    config = {"collect": {"tasks": 24, "n": 6, **collect}, "out": str(folder / name)}
    return rollout.rollout(RolloutConfig.model_validate(config))


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """Groups of the embedded policy on tool_math, its own file."""
    return played(tmp_path_factory.mktemp("groups"))


@pytest.fixture(scope="module")
def tiny_dialect(groups):
    with open(groups.manifest) as file:
        return json.load(file)["dialect"]


def test_groups_are_written_whole_with_tokens_and_a_manifest(groups):
    rows = list(disk.rows(Path(groups.path)))
    assert len(rows) == groups.episodes == 24 * 6
    assert len({row["task_id"] for row in rows}) == groups.tasks == 24
    assert [row["member"] for row in rows] == list(range(6)) * 24
    for row in rows:
        assert len(row["input_ids"]) == len(row["loss_mask"]) == len(row["logprobs"])
        assert sum(row["loss_mask"]) == row["trained_tokens"] > 0
        sampled = [p for p, m in zip(row["logprobs"], row["loss_mask"], strict=True) if m]
        assert all(p <= 0 for p in sampled)
    with open(groups.manifest) as file:
        facts = json.load(file)
    assert (facts["status"], facts["groups"], facts["episodes"]) == ("done", 24, 144)
    assert facts["weights"] == {"model": "tiny", "run": None, "step": None, "version": 0}
    assert facts["rollout"]["temperature"] == 1.0
    assert facts["versions"]["torch"] == torch.__version__


def test_nothing_is_overwritten_and_the_same_seed_plays_the_same(groups, tmp_path):
    with pytest.raises(UsageError, match="it exists, and nothing is overwritten"):
        played(Path(groups.path).parent)
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        played(tmp_path, f"{name}.jsonl", tasks=3, seed=seed)
    one, two, three = ((tmp_path / f"{n}.jsonl").read_bytes() for n in ("one", "two", "three"))
    assert one == two != three


def test_a_file_that_cannot_be_written_is_refused_before_any_work():
    with pytest.raises(UsageError, match="cannot be written at /dev/null"):
        rollout.rollout(RolloutConfig.model_validate({"out": "/dev/null/x/g.jsonl"}))
    with pytest.raises(UsageError, match="a file must be named"):
        rollout.rollout(RolloutConfig())


def test_a_place_that_takes_no_file_is_refused_before_anything_is_played(capsys):
    assert main(["rollout", "--tasks", "1", "--n", "1", "--out", "/proc/g.jsonl"]) == 2
    assert capsys.readouterr().err.startswith("--out /proc/g.jsonl: cannot be written (")


def test_ctrl_c_ends_after_whole_groups_with_130(tmp_path, capsys):
    out = tmp_path / "g.jsonl"

    def press():
        while not (out.exists() and out.stat().st_size):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    words = ["rollout", "--n", "2", "--tasks", "200", "--engine.max_live", "4", "--out", str(out)]
    assert main([*words, "--json"]) == 130
    told = json.loads(capsys.readouterr().out)
    rows = list(disk.rows(out))
    assert told["status"] == "stopped"
    assert len(rows) == told["episodes"] == 2 * told["tasks"] < 400
    assert json.loads(manifest_of(out).read_text())["status"] == "stopped"


def taught(groups, folder, name="run", data=None, **sections):
    config = {"out": str(folder / name), "update": {"lr": 1e-3}, **sections}
    return sft.sft(SftConfig.model_validate(config), data or [groups.path])


def test_learning_from_what_was_right_makes_a_policy_better(groups, tmp_path, capsys):
    found = taught(groups, tmp_path, sft={"keep": "reward>=1", "epochs": 3})
    assert found.loss["after"] < found.loss["before"]
    assert (found.status, found.rows) == ("done", 144)
    rows = list(disk.rows(tmp_path / "run" / "metrics.jsonl"))
    assert [row["step"] for row in rows] == list(range(1, found.steps + 1))
    assert rows[-1]["sft/heldout"] == found.loss["after"]
    assert sum(row["update/trained_tokens"] for row in rows) == found.tokens
    accuracy = []
    for policy in (["--model", "tiny"], ["--model", found.model], ["--run", found.path]):
        words = ["eval", *policy, "--tasks", "60", "--json"]
        assert main(words) == 0
        accuracy.append(json.loads(capsys.readouterr().out)["accuracy"]["mean"])
    assert accuracy[1] > accuracy[0] + 0.3
    assert accuracy[2] == accuracy[1]


def test_the_same_seed_learns_the_same_bits_and_runs_are_not_overwritten(groups, tmp_path):
    files = []
    for name in ("one", "two"):
        found = taught(groups, tmp_path, name)
        files.append((Path(found.model) / "model.safetensors").read_bytes())
    assert files[0] == files[1]
    with pytest.raises(UsageError, match=r"it holds a run.*Give another --out\.$"):
        taught(groups, tmp_path, "one")


def test_the_same_data_twice_is_refused_whatever_its_name(groups, tmp_path):
    copy = tmp_path / "again.jsonl"
    copy.write_bytes(Path(groups.path).read_bytes())
    manifest_of(copy).write_bytes(manifest_of(Path(groups.path)).read_bytes())
    with pytest.raises(UsageError, match=rf"{copy}: the same as {groups.path}"):
        taught(groups, tmp_path, data=[groups.path, str(copy)])


def test_a_run_that_was_taught_so_has_no_resume_and_says_how_to_go_on(groups, tmp_path, capsys):
    found = taught(groups, tmp_path)
    assert main(["train", "--resume", found.path]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"--resume {found.path}: a run of `agentrl sft`")
    assert said.count("\n") == 1


def test_a_saved_policy_plays_in_the_environment_and_way_that_it_was_trained_in(
    groups, tmp_path, capsys
):
    found = taught(groups, tmp_path)
    out = tmp_path / "again.jsonl"
    words = ["--n", "2", "--tasks", "2", "--out", str(out), "--env.difficulty", "easy", "-q"]
    assert main(["rollout", "--run", f"{found.path}@{found.steps}", *words]) == 0
    facts = json.loads(manifest_of(out).read_text())
    assert facts["weights"]["step"] == found.steps
    assert facts["weights"]["model"] == found.model
    assert facts["env"] == {"name": "tool_math", "options": {"difficulty": "easy"}}
    assert {row["difficulty"] for row in disk.rows(out)} == {"easy"}
    assert "written" in capsys.readouterr().out
    assert main(["rollout", "--run", f"{found.path}@99", *words[:5], "x.jsonl"]) == 2
    assert "no whole checkpoint of step 99" in capsys.readouterr().err


def test_with_nothing_kept_nothing_is_written(groups, tmp_path):
    with pytest.raises(UsageError, match="none of 144 trajectories is kept"):
        taught(groups, tmp_path, sft={"keep": "reward>2"})
    assert not (tmp_path / "run").exists()


def test_a_trajectory_longer_than_a_micro_batch_is_refused_by_its_length(groups, tmp_path):
    with pytest.raises(UsageError, match=r"like --keep tokens<=60\."):
        taught(groups, tmp_path, update={"tokens_per_micro_batch": 60})
    assert not (tmp_path / "run").exists()


def test_ctrl_c_saves_what_was_learned(groups, tmp_path, capsys):
    run = tmp_path / "run"

    def press():
        while not (run / "metrics.jsonl").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    words = ["sft", "--data", groups.path, "--epochs", "500", "--out", str(run), "--json"]
    assert main(words) == 130
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == json.loads((run / "run.json").read_text())["status"] == "stopped"
    assert load_policy(told["model"]).model.num_parameters() > 0


def test_a_full_disk_ends_a_rollout_with_a_line_and_whole_groups(tmp_path):
    config = RolloutConfig.model_validate({"collect": {"tasks": 2, "n": 2}, "out": "/dev/full"})
    session = rollout._Session(config, tmp_path / "g.jsonl", {"groups": 0}, None, [1], [])
    with pytest.raises(RunError, match="cannot be written"), rollout._closed(session):
        disk.append(Path("/dev/full"), [{"a": 1}])
    assert json.loads(manifest_of(session.file).read_text())["status"] == "failed"


# ---- the mathematics


def plain_cross_entropy(model, samples):
    """As one would write it: the mean over sampled tokens of all rows."""
    losses = []
    for sample in samples:
        ids = torch.tensor([sample.input_ids])
        found = model(ids).logits[0, :-1].log_softmax(-1)
        own = -found[torch.arange(ids.shape[1] - 1), ids[0, 1:]]
        losses.append(own[torch.tensor(sample.loss_mask[1:], dtype=torch.bool)])
    return torch.cat(losses).mean()


def random_samples(seed, count=5):
    draw = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(count):
        length = int(torch.randint(3, 12, (1,), generator=draw))
        ids = torch.randint(0, VOCABULARY, (length,), generator=draw).tolist()
        mask = [0, *torch.randint(0, 2, (length - 2,), generator=draw).tolist(), 1]
        logprobs = [-1.0 if m else float("nan") for m in mask]
        out.append(Sample(tuple(ids), tuple(mask), tuple(logprobs), 1.0))
    return out


@pytest.mark.parametrize("cap", [12, 40, 4096])
def test_the_gradient_is_that_of_the_mean_over_sampled_tokens_however_rows_are_cut(cap):
    samples = random_samples(0)
    reference, model = llama(1), llama(1)
    loss = plain_cross_entropy(reference, samples)
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in reference.parameters()]).norm()
    learner = Learner(
        model,
        lr=0.1,
        optimizer="adamw",
        loss="dapo",
        objective=sft.likelihood,
        grad_norm=1e9,
        tokens_per_micro_batch=cap,
    )
    report = learner.step(samples, len(samples))
    assert report.loss == pytest.approx(loss.item(), rel=1e-5)
    assert report.grad_norm == pytest.approx(norm.item(), rel=1e-4)


def test_only_sampled_tokens_teach_and_what_an_engine_said_of_them_does_not():
    samples = random_samples(3)
    others = [
        Sample(
            (*s.input_ids, 7, 8, 9),
            (*s.loss_mask, 0, 0, 0),
            (*(-2.0 * p for p in s.logprobs), *[float("nan")] * 3),
            1.0,
        )
        for s in samples
    ]
    learned = []
    for rows in (samples, others):
        model = llama(1)
        learner = Learner(model, lr=0.01, optimizer="adamw", loss="dapo", objective=sft.likelihood)
        report = learner.step(rows, len(rows))
        assert report.trained_tokens == sum(sum(s.loss_mask) for s in samples)
        learned.append((report.loss, report.grad_norm))
    assert learned[0] == pytest.approx(learned[1], rel=1e-5)


def test_held_out_loss_is_the_mean_over_all_sampled_tokens_of_all_examples():
    samples = random_samples(5)
    model = llama(2)
    policy = Policy(model, None, "x", Path())
    examples = [Example("a", tuple(samples[:2])), Example("b", tuple(samples[2:]))]
    with torch.no_grad():
        expected = plain_cross_entropy(model, samples).item()
    for cap in (12, 30, 4096):
        assert sft.cross_entropy(policy, examples, cap) == pytest.approx(expected, rel=1e-5)
    assert sft.cross_entropy(policy, [], 10) is None
