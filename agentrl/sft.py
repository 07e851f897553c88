"""sft: learn from kept trajectories, each token as likely as can be.

In    an SftConfig, files that `rollout` wrote
Out   a folder with checkpoints that `--model` and `--run` read, and metrics
Not   exact resume: Ctrl-C saves the weights, and a new run may begin with them

The loss is the cross-entropy of the sampled tokens, each of an update's counting the same. Packing,
micro-batches and memory are those of training.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentrl import checkpoint, record, rollout_manifest
from agentrl.dataset import Dataset, Example, read
from agentrl.dialect import dialect_of
from agentrl.errors import RunError, UsageError
from agentrl.figures import UpdateReport
from agentrl.forecast import Forecast, forecast_of, probe
from agentrl.head import head_of, score
from agentrl.interrupt import Interrupt, listening
from agentrl.keeping import rule_of
from agentrl.layout import lay_out
from agentrl.loss import TokenSums
from agentrl.offline import SftConfig, SftRecord
from agentrl.plan import plan
from agentrl.record import RunFolder
from agentrl.sections import EnvSection, RolloutSection
from agentrl.tomlfile import dump_toml
from agentrl.update import Learner
from agentrl.version import __version__
from agentrl.weights import Policy, load_policy

Say = Callable[[str], None]
STREAM = 23
"""Keeps the order of trajectories apart from every other use of a seed."""
KEEP = 2
"""Newest checkpoints that stay: one an epoch."""


@dataclass(frozen=True, slots=True)
class SftSummary:
    """How it ended."""

    path: str
    status: str
    """done or stopped."""
    model: str
    """The folder of the newest weights, for --model."""
    steps: int
    rows: int
    kept: int
    heldout: int
    """Of the kept ones: trajectories that only measured."""
    loss: Mapping[str, float | None]
    """Held-out cross-entropy of a token before and after, nats; None where nothing is held out."""
    tokens: int
    """Sampled tokens learned from, over all epochs."""

    def as_json(self) -> dict[str, Any]:
        """The document that `agentrl sft --json` prints."""
        return asdict(self)


@dataclass(slots=True)
class _Course:
    """Where it stands."""

    config: SftConfig
    data: Dataset
    policy: Policy
    learner: Learner
    folder: RunFolder
    facts: dict[str, Any]
    say: Say
    step: int = 0
    tokens: int = 0
    saved: int = -1


def sft(
    config: SftConfig, data: Sequence[str], *, command: Sequence[str] = (), say: Say | None = None
) -> SftSummary:
    """Train a policy on kept trajectories.

    Args:
        config: The settings.
        data: Files that `rollout` wrote.
        command: What run.json tells of how it was called.
        say: Told a line for each epoch.

    Raises:
        UsageError: a setting or a file is wrong; nothing was written.
        RunError: memory does not do, or the disk is full.
    """
    if not data:
        raise UsageError("--data: a file must be named. `agentrl rollout` writes them.")
    if not config.out:
        raise UsageError("--out: a folder must be named. Write --out RUN_FOLDER.")
    out = Path(config.out)
    record.check_free(str(out.parent), out.name, cure="Give another --out.")
    policy = _policy(config)
    found = read(
        data,
        rule_of(config.sft.keep),
        dialect_of(policy.tokenizer),
        entries=head_of(policy.model).weight.shape[0],
        heldout=config.sft.heldout,
        seed=config.sft.seed,
    )
    forecast = forecast_of(policy.model, config.model, config.update, longest=found.longest)
    if found.longest > forecast.cap:
        raise UsageError(
            f"--data: a trajectory has {found.longest} tokens, and a micro-batch {forecast.cap}. "
            "Raise --memory or --update.tokens_per_micro_batch, or keep shorter ones, "
            f"like --keep tokens<={forecast.cap}."
        )
    learner = _learner(config, policy, forecast)
    probe(learner, forecast, found.longest)
    folder = record.create(str(out.parent), out.name, "sft")
    facts = _facts(config, found, command)
    course = _Course(config, found, policy, learner, folder, facts, say or _silent)
    with record.hold(folder), listening() as interrupt:
        return _followed_up(course, interrupt)


def likelihood(
    logprobs: Tensor, behaviour: Tensor, _: Tensor, weights: Tensor, **trust: object
) -> TokenSums:
    """Cross-entropy, summed with the given token weights; drift from who sampled is told beside."""
    with torch.no_grad():
        known = ~behaviour.isnan()
        log_ratio = (logprobs - torch.where(known, behaviour, logprobs)).clamp(-20.0, 20.0)
        nothing = logprobs.new_zeros(())
    return TokenSums(
        loss=-(weights * logprobs).sum(),
        k3=(log_ratio.exp() - 1 - log_ratio).sum(),
        known=known.sum(),
        clipped=nothing,
        capped=nothing,
        masked=nothing,
        gap=log_ratio.abs().max() if len(log_ratio) else nothing,
    )


@torch.no_grad()
def cross_entropy(policy: Policy, examples: Sequence[Example], cap: int) -> float | None:
    """Mean over sampled tokens, nats; None without examples."""
    samples = [s for e in examples for s in e.samples]
    if not samples:
        return None
    total, count = 0.0, 0
    (share,) = plan([len(s.input_ids) for s in samples], cap, packed=False)
    for batch in share:
        rows = [samples[row] for row in batch.rows]
        laid = lay_out(rows, [1.0] * len(rows)).to(policy.model.device)
        found = score(policy.model, laid.ids, laid.at, laid.labels)
        total -= float(found.logprobs.double().sum())
        count += len(laid.labels)
    return total / count


def _followed_up(course: _Course, interrupt: Interrupt) -> SftSummary:
    """The run, with run.json true at every moment."""
    try:
        course.folder.write_config(dump_toml(_as_recorded(course)), {})
        course.folder.write_run(course.facts)
        _run(course, interrupt)
    except OSError as error:
        raise RunError(
            f"{course.folder.path}: cannot be written ({error.strerror}). Make room and begin anew."
        ) from error
    except BaseException:
        course.folder.write_run(
            course.facts | {"status": "failed", "ended": rollout_manifest.now()}
        )
        raise
    whole = not interrupt.asked or course.step == _steps(course)
    course.facts |= {"status": "done" if whole else "stopped", "ended": rollout_manifest.now()}
    course.folder.write_run(course.facts)
    return _summary(course)


def _run(course: _Course, interrupt: Interrupt) -> None:
    loss = course.facts["loss"]
    loss["before"] = loss["after"] = _heldout(course)
    for epoch, batch, last in _batches(course.config, course.data.train):
        samples = [s for example in batch for s in example.samples]
        report = course.learner.step(samples, len(batch))
        course.step += 1
        course.tokens += report.trained_tokens
        shown = None
        if last or interrupt.asked:
            shown = loss["after"] = _heldout(course)
            _save(course)
            course.say(f"epoch {epoch} loss {_nats(report.loss)} held-out {_nats(shown)}")
        course.folder.write_metrics(_row(course, epoch, report, shown))
        if interrupt.asked:
            return


def _silent(_: str) -> None:
    return None


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _batches(
    config: SftConfig, examples: Sequence[Example]
) -> Iterator[tuple[int, list[Example], bool]]:
    """Epoch, the examples of an update, and whether it is the epoch's last."""
    size = config.sft.batch
    for epoch in range(1, config.sft.epochs + 1):
        order = np.random.default_rng([config.sft.seed, STREAM, epoch]).permutation(len(examples))
        for start in range(0, len(order), size):
            batch = [examples[int(i)] for i in order[start : start + size]]
            yield epoch, batch, start + size >= len(order)


def _steps(course: _Course) -> int:
    return course.config.sft.epochs * -(-len(course.data.train) // course.config.sft.batch)


def _heldout(course: _Course) -> float | None:
    return cross_entropy(course.policy, course.data.heldout, course.learner.cap)


def _save(course: _Course) -> None:
    parts = {checkpoint.POLICY: course.policy}
    checkpoint.save(course.folder.checkpoints, course.step, parts, keep=KEEP)
    course.saved = course.step


def _row(course: _Course, epoch: int, report: UpdateReport, heldout: float | None) -> Any:
    return {
        "step": course.step,
        "epoch": epoch,
        "sft/loss": report.loss,
        "sft/heldout": heldout,
        "update/grad_norm": report.grad_norm,
        "update/tokens": report.tokens,
        "update/trained_tokens": report.trained_tokens,
        "update/micro_batches": report.micro_batches,
        "update/entropy": report.entropy,
        "update/peak_bytes": report.peak_bytes,
        "mismatch/k3": report.k3,
    }


def _summary(course: _Course) -> SftSummary:
    folder = course.folder.checkpoints / checkpoint.name_of(course.saved) / checkpoint.POLICY
    return SftSummary(
        path=str(course.folder.path),
        status=course.facts["status"],
        model=str(folder),
        steps=course.step,
        rows=course.data.rows,
        kept=course.data.kept,
        heldout=len(course.data.heldout),
        loss=course.facts["loss"],
        tokens=course.tokens,
    )


def _as_recorded(course: _Course) -> SftRecord:
    """With how the first file was played: the policy is measured the same way."""
    first = course.data.sources[0]
    known = RolloutSection.model_fields
    rollout = {k: v for k, v in first["rollout"].items() if k in known}
    return SftRecord(
        **{name: getattr(course.config, name) for name in SftConfig.model_fields},
        env=EnvSection.model_validate(first["env"]),
        rollout=RolloutSection.model_validate(rollout),
    )


def _facts(config: SftConfig, data: Dataset, command: Sequence[str]) -> dict[str, Any]:
    return {
        "kind": "sft",
        "status": "running",
        "version": __version__,
        "command": shlex.join(command),
        "seed": config.sft.seed,
        "started": rollout_manifest.now(),
        "ended": None,
        "env": data.sources[0]["env"]["name"],
        "model": config.model.name,
        "engine": None,
        "data": data.hashes,
        "keep": config.sft.keep,
        "rows": data.rows,
        "kept": data.kept,
        "loss": {"before": None, "after": None},
        "python": platform.python_version(),
    }


def _policy(config: SftConfig) -> Policy:
    return load_policy(**config.model.model_dump(), seed=config.sft.seed)


def _learner(config: SftConfig, policy: Policy, forecast: Forecast) -> Learner:
    u = config.update
    return Learner(
        policy.model,
        lr=u.lr,
        weight_decay=u.weight_decay,
        optimizer=u.optimizer,
        loss="dapo",  # each token of an update counts the same
        objective=likelihood,
        grad_norm=u.grad_norm,
        tokens_per_micro_batch=forecast.cap,
        checkpointing=u.checkpointing,
        observe=forecast.observe,
    )
