"""The parts of a checkpoint that hold tensors.

In    the policy and the learner of a run
Out   parts by name, each able to save and load itself
Not   atomic writing: checkpoint.py sees to that
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentrl.checkpoint import Part
from agentrl.state import Standing
from agentrl.update import Learner
from agentrl.weights import Policy, load_weights, save_policy

POLICY = "policy"
"""Part that any program can load with from_pretrained."""


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """Weights and tokenizer, as a Hugging Face folder."""

    policy: Policy

    def save(self, folder: Path) -> None:
        """Write the folder."""
        save_policy(self.policy.model, self.policy.tokenizer, folder)

    def load(self, folder: Path) -> None:
        """Take the weights, in place."""
        load_weights(self.policy.model, folder)


def parts_of(policy: Policy, learner: Learner, standing: Standing) -> Mapping[str, Part]:
    """What a run saves."""
    return {POLICY: PolicyPart(policy), "learner": learner, "standing": standing}
