"""TRL's GRPOTrainer as it ships, given finished rollouts instead of sampling them.

In    a model, a tokenizer for its pad token, rows per micro-batch
Out   one optimizer step on the rollouts of a group, by `trainer.train()` itself
Not   changed: only the method that samples and scores is replaced, by one that pads the given
      rows as that one does. The clock runs from the trainer's on_step_begin to its on_step_end
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from datasets import IterableDataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trajectories import Rollouts
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import utils as trl_utils

Watch = Callable[[], AbstractContextManager[Any]]


class Given(GRPOTrainer):  # type: ignore[misc]
    """Trains on `rollouts`; nothing else differs from its base."""

    rollouts: Rollouts

    def _generate_and_score_completions(self, inputs: Sequence[Any]) -> dict[str, Tensor]:
        """What the base returns: prompts padded left, completions right, to the longest of all."""
        cut, pad = self.rollouts.prompt, self._tokenizer.pad_token_id
        rows = self.rollouts.samples
        ids = [torch.tensor(s.input_ids) for s in rows]
        masks = [torch.tensor(s.loss_mask) for s in rows]
        completions = [row[cut:] for row in ids]
        prompts = torch.stack([row[:cut] for row in ids])
        return {
            "prompt_ids": prompts,
            "prompt_mask": torch.ones_like(prompts),
            "completion_ids": pad_sequence(completions, batch_first=True, padding_value=pad),
            "completion_mask": pad_sequence(
                [torch.ones_like(row) for row in completions], batch_first=True
            ),
            "tool_mask": pad_sequence(
                [mask[cut:] for mask in masks], batch_first=True, padding_value=1
            ),
            "advantages": torch.tensor([s.advantage for s in rows]),
            "num_items_in_batch": torch.stack([mask.sum() for mask in masks]).sum(),
        }


class _Around(TrainerCallback):  # type: ignore[misc]
    """Enters something when a step begins and leaves it when the step has ended."""

    def __init__(self) -> None:
        self.watch: Watch = nullcontext
        self._open = ExitStack()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._open.enter_context(self.watch())

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._open.close()


class Peer:
    """A trainer whose steps can be asked for one by one."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        n: int,
        rows: int,
        lr: float,
        grad_norm: float = 1.0,
    ) -> None:
        """Defaults of TRL, but for what makes the two do the same work.

        loss_type grpo (its default divides by all tokens), float32 throughout (its default is
        mixed bfloat16), no decay of the learning rate, no logs and no saved files.
        """
        self._around = _Around()
        self._folder = tempfile.TemporaryDirectory()
        settings = GRPOConfig(
            output_dir=self._folder.name,
            use_cpu=True,
            bf16=False,
            loss_type="grpo",
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=n // rows,
            num_generations=n,
            learning_rate=lr,
            max_grad_norm=grad_norm,
            lr_scheduler_type="constant",
            max_steps=1,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        self._trainer = Given(
            model=model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=settings,
            train_dataset=IterableDataset.from_generator(lambda: iter([{"prompt": ""}])),
            processing_class=tokenizer,
            callbacks=[self._around],
        )
        self._trainer.remove_callback(PrinterCallback)

    def step(self, rollouts: Rollouts, watch: Watch = nullcontext) -> None:
        """One optimizer step; `watch` is entered as long as it lasts."""
        self._trainer.rollouts = rollouts
        self._around.watch = watch
        self._trainer.train()


@contextmanager
def completions_only() -> Iterator[None]:
    """Let its head leave out the prompt, as it does on a GPU; on a CPU it scores every position."""
    own = trl_utils._use_triton
    trl_utils._use_triton = lambda device: True
    try:
        yield
    finally:
        trl_utils._use_triton = own
