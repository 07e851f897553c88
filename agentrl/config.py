"""Every setting of a run: one name, a unit, a range and a sentence each.

In    plain values from code, TOML or flags (settings.py brings them here)
Out   TrainConfig, EvalConfig: frozen, complete, checked across sections
Not   reading files or flags, nor where a value came from: settings.py does that
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from agentrl.errors import UsageError, suggestion
from agentrl.memory.size import parse_size
from agentrl.pilot import shortest
from agentrl.sections import (
    EngineSection,
    EnvSection,
    ModelSection,
    PlayConfig,
    RolloutSection,
    Section,
)
from agentrl.selection.question import OPTIMAL, Question, check

SINKS = ("tensorboard", "trackio", "wandb")
Progress = Literal["auto", "plain", "json", "off"]


def _tokens(value: object, least: int) -> object:
    """A number of tokens, or auto; flags are text."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if value == "auto" or (type(value) is int and value >= least):
        return value
    raise ValueError(f"neither a number of tokens nor auto. Give one of at least {least}, or auto.")


class SelectSection(Section):
    """PODS: collect many, train on few."""

    n: int = Field(32, ge=2, description="Episodes played for each task.")
    m: int = Field(8, ge=2, description="Trajectories kept for the update, per task.")
    rule: Literal["max_variance", "all", "random", "max_reward", "first", "percentile"] = Field(
        "max_variance", description="Which m are kept."
    )
    within: Literal["auto", "random", "cheapest", "ht"] = Field(
        "auto", description="Which of equal rewards are kept; auto: random, or ht under a budget."
    )
    token_budget: int | Literal["auto"] = Field(
        0, description="Most tokens a step trains on, all groups together; 0: no limit."
    )
    micro_batches: int = Field(
        1, ge=1, description="Micro-batches that --token-budget auto pays for, each step."
    )
    floor: int = Field(
        0, ge=0, description="Fewest kept of a group with contrast, where that fits the budget."
    )
    cap: int = Field(0, ge=0, description="Most kept of a group; 0: m.")
    floor_tokens: int = Field(
        0, ge=0, description="A group with contrast keeps what so many tokens would bring it."
    )
    cap_tokens: int = Field(0, ge=0, description="Most tokens kept of a group; 0: no limit.")
    attention_length: int = Field(
        0,
        ge=0,
        description="Length L0 at which attention costs as much as the rest: a row counts "
        "L + L*L/L0 tokens against a budget; 0: L.",
    )
    unbiased: bool = Field(
        False,
        description="Every row gets a chance, and a weight that undoes it. Needs stats group.",
    )
    truncated: Literal["score", "mask", "zero"] = Field(
        "score", description="Reward of a cut-off episode: its own, none, or 0."
    )
    stats: Literal["subset", "group"] = Field(
        "subset", description="Rewards whose mean and spread normalise advantages."
    )

    @field_validator("token_budget", mode="before")
    @classmethod
    def counted(cls, value: object) -> object:
        """A number of tokens, or auto."""
        return _tokens(value, least=0)

    @model_validator(mode="after")
    def fits(self) -> Self:
        """No more can be kept than were played, and not every rule knows every limit."""
        if self.m > self.n:
            raise ValueError(f"can't keep {self.m} of n = {self.n}. Lower --m or raise --n.")
        if self.cap == 1:
            raise ValueError("a single trajectory has no contrast. Give 2 or more, or 0 for m.")
        try:
            check(self.question(1))
        except UsageError as error:
            raise ValueError(str(error)) from error
        if self.unbiased and self.stats != "group":
            raise ValueError(
                "unbiased: weights undo a draw from the whole group, so advantages must be "
                "those of the whole group. Add --select.stats group."
            )
        return self

    def question(self, tokens_per_micro_batch: int) -> Question:
        """What selection is asked each step."""
        budget = self.token_budget
        if budget == "auto":
            budget = self.micro_batches * tokens_per_micro_batch
        return Question(
            rule=self.rule,
            within=self._within(bool(budget)),
            m=self.m,
            token_budget=budget or None,
            floor=self.floor,
            floor_tokens=self.floor_tokens,
            cap_tokens=self.cap_tokens or None,
            unbiased=self.unbiased,
            cap=self.cap or None,
        )

    def _within(self, budgeted: bool) -> str:
        """The cheapest of equal rewards buy the most Q, and teach worse: docs/decisions.md."""
        drawn = budgeted and self.rule == OPTIMAL and not self.unbiased
        return "ht" if drawn and self.within == "auto" else self.within


class UpdateSection(Section):
    """How the kept trajectories change the weights."""

    loss: Literal["grpo", "dr_grpo", "dapo"] = Field("grpo", description="Loss and normaliser.")
    lr: float = Field(3e-4, gt=0, description="Learning rate, constant.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's decoupled decay.")
    optimizer: Literal["adamw", "adamw8bit", "offloaded"] = Field(
        "adamw", description="AdamW, its moments in 8 bits, or moments that CUDA moves to the host."
    )
    clip_low: float = Field(0.2, gt=0, lt=1, description="Ratio may fall to 1 - this.")
    clip_high: float = Field(0.2, gt=0, description="Ratio may rise to 1 + this.")
    tis_cap: float = Field(
        2.0, ge=0, description="Most that a token's ratio to its engine weighs; 0: no limit."
    )
    mismatch_limit: float = Field(
        0.0, ge=0, description="Mean |log ratio| above which a row counts for nothing; 0: none."
    )
    grad_norm: float = Field(1.0, gt=0, description="Gradients are clipped to this length.")
    tokens_per_micro_batch: int | Literal["auto"] = Field(
        "auto", description="Most tokens that go forward at once; auto: what memory allows."
    )
    memory: str = Field(
        "",
        description="What the update may take, like 80GiB; empty: what a GPU has, or no limit.",
    )
    parallel: Literal["single", "replicated"] = Field(
        "single", description="replicated: torchrun starts processes that share each update."
    )
    checkpointing: Literal["none", "layers", "offload"] = Field(
        "none", description="layers: recompute activations; offload: keep the rest on the host."
    )

    @field_validator("tokens_per_micro_batch", mode="before")
    @classmethod
    def counted(cls, value: object) -> object:
        """A number of tokens, or auto."""
        return _tokens(value, least=1)

    @field_validator("tis_cap")
    @classmethod
    def above_one(cls, value: float) -> float:
        """A token that the engine and the learner agree on keeps its whole weight."""
        if 0 < value < 1:
            raise ValueError("below 1 it would cut ratios of 1 too. Give 1 or more, or 0.")
        return value

    @field_validator("memory")
    @classmethod
    def sized(cls, value: str) -> str:
        """A size that can be read."""
        if value:
            try:
                parse_size(value, "memory")
            except UsageError as error:
                raise ValueError(str(error).partition(": ")[2]) from error
        return value


class TrainSection(Section):
    """How long, and how often to look."""

    steps: int = Field(40, ge=1, description="Steps of the run.")
    tasks_per_step: int = Field(4, ge=1, description="Different tasks a step.")
    max_staleness: int = Field(
        0, ge=0, description="Steps played ahead while one is learned from; 0: one after the other."
    )
    curriculum: bool = Field(
        False, description="Draw more from levels of difficulty where half of the episodes succeed."
    )
    skip_flat: int = Field(
        0, ge=0, description="Flat groups in a row after which a task is skipped; 0: never."
    )
    pilot: int = Field(
        0, ge=0, description="Episodes played first; the rest unless they are flat; 0: all at once."
    )
    pilot_certainty: float = Field(
        1 / 3, gt=0, le=1, description="Chance of a flat rest that ends a group after its pilot."
    )
    audit: float = Field(
        0.1,
        gt=0,
        le=1,
        description="Share of flat pilots played on anyway, and first chance of a skipped task.",
    )
    seed: int = Field(0, ge=0, description="Seed of everything that is drawn.")
    eval_every: int = Field(0, ge=0, description="Held-out evaluation every k steps; 0: ends only.")
    save_every: int = Field(20, ge=0, description="Checkpoint every k steps; 0: only the end.")
    keep_checkpoints: int = Field(2, ge=1, description="Newest checkpoints that stay on disk.")
    keep_best: int = Field(
        1, ge=0, description="Checkpoints of the highest held-out accuracy that stay too."
    )
    flat_warning: int = Field(
        3, ge=1, description="Steps in a row, flat or of short rows only, before a warning."
    )


class HeldoutSection(Section):
    """What the policy is measured on: sampled as in training, on tasks it never trained on."""

    tasks: int = Field(200, ge=0, description="Held-out tasks; 0 measures nothing.")
    k: int = Field(1, ge=1, description="Attempts at each.")


class RecordSection(Section):
    """What is written."""

    tokens: bool = Field(False, description="Token ids, mask and log-probs in groups/*.jsonl.")
    sinks: str = Field(
        "", description="Where else figures go: tensorboard, trackio, wandb; commas between."
    )

    @field_validator("sinks")
    @classmethod
    def known(cls, value: str) -> str:
        """Names that there are."""
        for name in filter(None, map(str.strip, value.split(","))):
            if name not in SINKS:
                hint = suggestion(name, SINKS, f"Known are {', '.join(SINKS)}.")
                raise ValueError(f"{name!r} is no sink. {hint}")
        return value

    @property
    def sink_names(self) -> list[str]:
        """Each sink once."""
        return [name for name in SINKS if name in map(str.strip, self.sinks.split(","))]


class RunSection(Section):
    """Where it is written and how it is shown."""

    name: str = Field("", description="Folder under out; a name with a number if empty.")
    out: str = Field("runs", description="Folder of all runs.")
    progress: Progress = Field("auto", description="How it is shown: auto is live on a terminal.")


class TrainConfig(Section):
    """A whole training run."""

    env: EnvSection = EnvSection()
    model: ModelSection = ModelSection()
    engine: EngineSection = EngineSection()
    rollout: RolloutSection = RolloutSection()
    select: SelectSection = SelectSection()
    update: UpdateSection = UpdateSection()
    train: TrainSection = TrainSection()
    heldout: HeldoutSection = HeldoutSection()
    record: RecordSection = RecordSection()
    run: RunSection = RunSection()

    @model_validator(mode="after")
    def drawn(self) -> Self:
        """Episodes of a group differ because they are drawn."""
        if not self.rollout.temperature:
            raise ValueError(
                "temperature: must be more than 0 in training. At 0 all n episodes of a task "
                "are the same. Leave it at 1."
            )
        return self

    @model_validator(mode="after")
    def pilot_that_decides(self) -> Self:
        """A pilot is part of a group, and long enough to end one."""
        n, train = self.select.n, self.train
        least = shortest(n, train.pilot_certainty)
        if train.pilot and (least is None or not least <= train.pilot < n):
            fits = f"{least} to {n - 1}" if least else "none at all"
            raise ValueError(
                f"a pilot of {train.pilot} ends no group of n = {n}. With certainty "
                f"{train.pilot_certainty:.2g} it may have {fits}. "
                "Lower --train.pilot_certainty to allow shorter ones."
            )
        return self

    @model_validator(mode="after")
    def awake_where_it_plays(self) -> Self:
        """What plays during an update does not sleep through it."""
        if self.engine.sleep and self.train.max_staleness:
            raise ValueError(
                "sleep: with --max-staleness above 0 the engine plays during updates. "
                "Leave one of the two out."
            )
        return self

    @model_validator(mode="after")
    def unbiased_where_rows_count_alike(self) -> Self:
        """Weights undo a draw only where the loss divides by nothing that was drawn."""
        if self.select.unbiased and self.update.loss != "grpo":
            raise ValueError(
                f"unbiased: {self.update.loss} divides by tokens of the kept rows, which "
                "depend on the draw. Use --loss grpo."
            )
        return self


class EndpointSection(Section):
    """Somebody's server that plays the policy's part, in the manner of OpenAI's chat."""

    base_url: str = Field(
        "", description="Its address up to /v1; if empty, the model is played here."
    )
    api_key_env: str = Field(
        "OPENAI_API_KEY", description="Environment variable that holds the key; never recorded."
    )
    max_live: int = Field(16, ge=1, description="Episodes played through it at once.")
    max_requests: int = Field(0, ge=0, description="Requests begun in a minute; 0: no limit.")
    retries: int = Field(6, ge=0, description="Tries of a request beyond the first.")
    patience: float = Field(300.0, gt=0, description="Seconds for all tries of a request.")
    timeout: float = Field(120.0, gt=0, description="Seconds until a try is given up.")
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="What the server calls the limit of a turn."
    )
    send_seed: bool = Field(True, description="Send each turn's seed; some servers refuse it.")
    price_in: float = Field(0.0, ge=0, description="Price of a million prompt tokens.")
    price_cached: float = Field(0.0, ge=0, description="Price of a million cached prompt tokens.")
    price_out: float = Field(0.0, ge=0, description="Price of a million sampled tokens.")

    @field_validator("base_url")
    @classmethod
    def addressed(cls, value: str) -> str:
        """An address without secrets in it: it is recorded."""
        if not value:
            return value
        scheme, _, rest = value.partition("://")
        if scheme not in ("http", "https") or not rest.strip("/"):
            raise ValueError("base_url: not an address. Write http://HOST:PORT/v1.")
        if "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
            raise ValueError(
                "base_url: it is recorded, so it may hold no password and no query. Put the key "
                "in an environment variable and name that with --api-key-env."
            )
        return value.removesuffix("/").removesuffix("/chat/completions")


class EvalSection(Section):
    """Which tasks are attempted, how often."""

    split: Literal["train", "test"] = Field("test", description="Split the tasks come from.")
    tasks: int = Field(200, ge=1, description="Tasks attempted.")
    k: int = Field(1, ge=1, description="Attempts at each.")
    seed: int = Field(0, ge=0, description="Seed of everything that is drawn.")
    run: str = Field("", description="RUN or RUN@STEP whose checkpoint is measured.")


class EvalConfig(PlayConfig):
    """A whole evaluation."""

    endpoint: EndpointSection = EndpointSection()
    eval: EvalSection = EvalSection()
    template: str = Field(
        "",
        description="Chat template in the place of the model's own: hermes, or a Jinja file.",
    )
    out: str = Field("", description="Folder for the episodes; nothing is written if empty.")

    @model_validator(mode="after")
    def one_policy(self) -> Self:
        """What is played is here or there, and has a name."""
        if not self.endpoint.base_url:
            return self
        if "name" not in self.model.model_fields_set:
            raise ValueError("base_url: which of its models? Add --model NAME.")
        if self.eval.run:
            raise ValueError("base_url: a run's checkpoint is played here. Leave one of both out.")
        if self.template:
            raise ValueError("template: the server has its own. Start it with another one.")
        return self
