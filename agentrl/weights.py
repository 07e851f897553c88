"""Weights: a policy from a name, to a folder, and into an engine.

In    the embedded policy's name, a converted one's, a folder, or a hub's org/name
Out   Policy (model, tokenizer, folder); ModelWeights, which engines load from
Not   other than causal language models, and no code that comes with a checkpoint
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.core_model_loading import revert_weight_conversion
from transformers.utils import logging

from agentrl import adapter, fourbit, smollm
from agentrl.errors import UsageError, suggestion
from agentrl.head import head_of, score

TINY = Path(__file__).parent / "tiny"

EMBEDDED: Mapping[str, Callable[[], Path]] = MappingProxyType(
    {"tiny": lambda: TINY, "smollm2-135m": smollm.folder}
)
"""Names that are not folders, and where their files are or are put."""

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_MODEL_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_UNREADABLE = (OSError, ValueError, KeyError, RuntimeError, SafetensorError)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from talking while it loads or saves."""
    speech: Any = logging
    verbosity, bars = speech.get_verbosity(), speech.is_progress_bar_enabled()
    speech.set_verbosity_error()
    speech.disable_progress_bar()
    try:
        yield
    finally:
        speech.set_verbosity(verbosity)
        if bars:
            speech.enable_progress_bar()


@dataclass(frozen=True, slots=True)
class Policy:
    """A causal language model that decides, with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    """As the user gave it."""
    folder: Path
    """Where its files were read from, for engines that read them too."""

    def save(self, folder: Path) -> None:
        """Write weights, config and tokenizer as they are now.

        An adapter is merged into the weights, and written beside them by itself too.
        """
        save_policy(self.model, self.tokenizer, folder)
        if adapter.is_adapted(self.model):
            adapter.save(self.model, folder / adapter.FOLDER, self.name)

    @_quiet()
    def load(self, folder: Path) -> None:
        """Take the weights that `save` wrote into the model at hand.

        Where there is an adapter, only it is taken: the frozen base is the model's own, which
        must be the one that was saved.

        Raises:
            UsageError: they can't be read or are another model's.
        """
        adapter.check(self.model, folder / adapter.FOLDER)
        saved = _model(str(folder), folder, self.model.dtype, torch.device("cpu"))
        if adapter.is_adapted(self.model):
            adapter.load(self.model, folder / adapter.FOLDER)
            self._check_base(folder, saved.state_dict())
            return
        try:
            self.model.load_state_dict(saved.state_dict())
        except RuntimeError as error:
            raise UsageError(
                f"{folder}: weights of another model. {_reason(error)} "
                f"Resume with the model that was saved, not {self.name}."
            ) from error

    def _check_base(self, folder: Path, saved: Mapping[str, Tensor]) -> None:
        """Refuse a base that with the saved adapter is not what was saved."""
        merging = adapter.Merging(self.model)
        for name, held in adapter.stored(self.model).items():
            own, other = merging.whole(held).cpu(), saved.get(name)
            exact = not merging.touches(held)
            if other is None or own.shape != other.shape or not _agree(own, other, exact=exact):
                raise UsageError(
                    f"{folder}: its adapter was trained on another base: {name} is not that of "
                    f"{self.name}. Resume with the --model of that run, as it was then."
                )


@_quiet()
def load_policy(
    name: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    base_bits: int = 0,
    lora_rank: int = 0,
    lora_alpha: float = 0.0,
    lora_targets: str = adapter.ALL,
    seed: int = 0,
) -> Policy:
    """Load a policy for training or play, ready on its device.

    Args:
        name: A key of EMBEDDED, a folder, or org/name of a model hub.
        dtype: float32, bfloat16, or auto: float32 on a CPU, else bfloat16.
        device: As torch names it; auto takes CUDA where there is one.
        base_bits: 4 freezes its linear layers in 4 bits; 0 leaves them as they are.
        lora_rank: Rank of the adapters that are trained in its place; 0 trains the model itself.
        lora_alpha: Adapters are scaled by this over the rank; 0 is twice the rank.
        lora_targets: all-linear, or names of linear layers with commas between.
        seed: Of an adapter's first weights.

    Raises:
        UsageError: there is no such model, or it can't be trained.
    """
    place = torch.device(_device(device))
    folder = folder_of(name)
    kind = getattr(torch, dtype) if dtype != "auto" else _auto_dtype(place)
    model = _model(f"--model {name}", folder, kind, torch.device("cpu") if base_bits else place)
    tokenizer = _tokenizer(name, folder)
    entries = head_of(model).weight.shape[0]
    if len(tokenizer) > entries:
        raise UsageError(
            f"--model {name}: its tokenizer has {len(tokenizer)} entries and its output "
            f"{entries}. They belong to different models. Put the right tokenizer in the folder."
        )
    if base_bits:
        fourbit.quantize(model, place)
    if lora_rank:
        adapter.add(model, lora_rank, lora_alpha or 2.0 * lora_rank, lora_targets, seed=seed)
        _check_names(name, model)
    return Policy(model, tokenizer, name, folder)


@_quiet()
def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model by name, without its weights.

    Raises:
        UsageError: there is no such model.
    """
    return _tokenizer(name, folder_of(name))


@_quiet()
def save_policy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a folder that `load_policy`, transformers and vLLM read."""
    if adapter.is_plain(model):
        model.save_pretrained(folder)
    else:
        merging = adapter.Merging(model)
        whole = {name: merging.whole(held).cpu() for name, held in _untied(model).items()}
        model.save_pretrained(folder, state_dict=whole)
    tokenizer.save_pretrained(folder)


class ModelWeights:
    """A WeightSource over a live model: nothing is copied before it is asked for.

    Adapters are merged, and 4-bit layers unpacked, into one new tensor after another; the
    model itself stays as it is.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Names and tensors as in a checkpoint; tied ones once, under the embedding's name."""
        merging = adapter.Merging(self._model)
        for name, held in _named(self._model).items():
            yield name, merging.whole(held)

    def save_adapter(self, folder: Path) -> None:
        """Write the adapter alone, as peft does."""
        adapter.save(self._model, folder, self._model.name_or_path or "")

    @torch.no_grad()
    def fingerprint(self, ids: Sequence[int]) -> list[float]:
        """Log-prob of each id of `ids[1:]` given those before it, at temperature 1."""
        row = torch.tensor([list(ids)], device=self._model.device)
        at = torch.arange(len(ids) - 1, device=self._model.device)
        return score(self._model, row, at, row[0, 1:]).logprobs.tolist()


def _agree(own: Tensor, other: Tensor, *, exact: bool) -> bool:
    """Equal; or, where adapters were merged on perhaps another device, equal but for rounding."""
    if exact:
        return torch.equal(own, other)
    relative, absolute = (1e-4, 1e-5) if own.dtype == torch.float32 else (2e-2, 1e-3)
    return torch.allclose(own, other, rtol=relative, atol=absolute)


def _untied(model: PreTrainedModel) -> dict[str, Tensor]:
    tied = model.all_tied_weights_keys
    return {name: held for name, held in adapter.stored(model).items() if name not in tied}


def _named(model: PreTrainedModel) -> dict[str, Tensor]:
    """Held tensors under the names that they have in a checkpoint."""
    named: dict[str, Tensor] = revert_weight_conversion(model, _untied(model))
    return named


def _check_names(name: str, model: PreTrainedModel) -> None:
    """Refuse adapters of tensors that a checkpoint cuts or joins: they could not be merged."""
    if adapter.Merging(model).missed(_named(model)):
        raise UsageError(
            f"--model {name}: some of its linear layers are stored in pieces, and an adapter "
            "could not be merged into those. Name others with --model.lora_targets."
        )


def folder_of(name: str) -> Path:
    """Where the files of a model are, by its name.

    Raises:
        UsageError: there is no such model.
    """
    if name in EMBEDDED:
        return EMBEDDED[name]()
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UsageError(
                f"--model {name}: no config.json there. A folder of a model holds config.json, "
                "*.safetensors and a tokenizer. Name the folder that save_pretrained wrote."
            )
        return path
    if _HUB_NAME.fullmatch(name):
        return _from_hub(name)
    known = f"Known are {', '.join(EMBEDDED)} and any folder of a causal language model."
    raise UsageError(f"--model {name}: no such folder. {suggestion(name, EMBEDDED, known)}")


def _from_hub(name: str) -> Path:
    try:
        return Path(snapshot_download(name, allow_patterns=_MODEL_FILES))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--model {name}: no such folder, and the model hub did not give it "
            f"({type(error).__name__}). Name a folder, or check the network and HF_HUB_OFFLINE."
        ) from error


def _model(where: str, folder: Path, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """A model whose every weight was in the folder."""
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except _UNREADABLE as error:
        raise UsageError(
            f"{where}: not a causal language model that transformers can load. "
            f"{_reason(error)} Name a folder with config.json and *.safetensors."
        ) from error
    model, found = loaded
    missing = sorted(found["missing_keys"])
    if missing:
        raise UsageError(
            f"{where}: {len(missing)} weights are not in its files ({missing[0]}, ...). "
            "They would be random. Copy the folder again, whole."
        )
    ready: PreTrainedModel = model.to(device).eval()
    return ready


def _tokenizer(name: str, folder: Path) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )
    except _UNREADABLE as error:
        raise UsageError(
            f"--model {name}: no tokenizer that transformers can load. {_reason(error)} "
            "Put its tokenizer.json and tokenizer_config.json in the folder."
        ) from error
    return tokenizer


def _device(name: str) -> str:
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


def _auto_dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "cpu" else torch.bfloat16


def _reason(error: Exception) -> str:
    """The first sentence of what a library says, however much it says."""
    sentence = re.split(r"\.\s|\n", str(error).strip(), maxsplit=1)[0]
    return f"{sentence.rstrip('.:') or type(error).__name__}."
