"""Settings of `rollout` and `sft`: playing without training, and training without playing.

In    plain values, as in config.py
Out   RolloutConfig, SftConfig: frozen, complete, checked
Not   the files with trajectories: those are named apart, there may be any number
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from agentrl.config import UpdateSection
from agentrl.errors import UsageError
from agentrl.keeping import rule_of
from agentrl.sections import EnvSection, ModelSection, PlayConfig, RolloutSection, Section

UNUSED = ("loss", "clip_low", "clip_high", "tis_cap", "mismatch_limit", "parallel")
"""Settings of an update that have no meaning where nothing is compared."""


class CollectSection(Section):
    """What is played."""

    split: Literal["train", "test"] = Field("train", description="Split the tasks come from.")
    tasks: int = Field(200, ge=1, description="Tasks played.")
    n: int = Field(32, ge=1, description="Episodes played for each task.")
    seed: int = Field(0, ge=0, description="Seed of everything that is drawn.")
    run: str = Field("", description="RUN or RUN@STEP whose checkpoint plays.")


class RolloutConfig(PlayConfig):
    """Groups for later use."""

    collect: CollectSection = CollectSection()
    out: str = Field("", description="File of the trajectories, one a line; it must not exist.")


class SftSection(Section):
    """Which trajectories are learned from, and how often."""

    keep: str = Field("correct=true", description="Rule of what is kept, like reward>=1,turns<=4.")
    epochs: int = Field(1, ge=1, description="Times that each kept trajectory is learned from.")
    batch: int = Field(32, ge=1, description="Trajectories of an update.")
    heldout: float = Field(
        0.1, ge=0, lt=1, description="Share of tasks whose trajectories only measure the loss."
    )
    seed: int = Field(0, ge=0, description="Seed of everything that is drawn.")

    @field_validator("keep")
    @classmethod
    def readable(cls, value: str) -> str:
        """A rule that can be read."""
        try:
            rule_of(value)
        except UsageError as error:
            raise ValueError(str(error).partition(": ")[2]) from error
        return value


class SftConfig(Section):
    """Learning from kept trajectories."""

    model: ModelSection = ModelSection()
    update: UpdateSection = UpdateSection()
    sft: SftSection = SftSection()
    out: str = Field("", description="Folder of the run; it must not hold one.")

    @model_validator(mode="after")
    def likelihood_only(self) -> Self:
        """No setting is taken that would change nothing."""
        for name in UNUSED:
            if getattr(self.update, name) != type(self.update).model_fields[name].default:
                raise ValueError(
                    f"{name}: the loss is the cross-entropy of sampled tokens alone. Leave it out."
                )
        return self


class SftRecord(SftConfig):
    """The settings of a run and how its data was played, which is how its policy is measured."""

    env: EnvSection = EnvSection()
    rollout: RolloutSection = RolloutSection()
