"""`agentrl plan`: does an update fit into a memory, and what to change where it does not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentrl.cli.entry import DONE, PROBLEMS
from agentrl.cli.output import Output, output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError
from agentrl.memory.footprint import Footprint, footprint, most_tokens, need
from agentrl.memory.ladder import ASLEEP, Rung, ladder
from agentrl.memory.regime import WORDS, Regime
from agentrl.memory.shape import Shape, shape_of
from agentrl.memory.size import in_words, parse_size

EXAMPLES = (
    "--model Qwen2.5-3B/config.json --memory 80GiB --mode lora --max-tokens 16384",
    "--model models/Qwen3-4B --memory 141GB --engine awake --json",
)
TINY = Path(__file__).parents[1] / "tiny"

_NUMBERS = {"shards": "devices that share the states [1]", "lora_rank": "of the adapters [16]"}
_HELP = {
    "mode": "what is trained: all weights, adapters, or adapters on a 4-bit base [full]",
    "dtype": "weights that are computed with; mixed keeps them in float32 [bfloat16]",
    "optimizer": "AdamW, its moments in 8 bits, or on the host [adamw]",
    "checkpointing": "what is computed again, or kept on the host, between passes [layers]",
    "kernels": "of the model [eager]",
    "head": "logits in chunks, or of all positions at once [chunked]",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked, and the answer."""

    shape: Shape
    regime: Regime
    memory: int
    tokens: int
    """Of the micro-batch whose peak is predicted."""
    most: int
    """The largest that fits."""
    predicted: Footprint
    rungs: tuple[Rung, ...]

    @property
    def fits(self) -> bool:
        """With the margin."""
        return self.tokens <= self.most

    @property
    def needed(self) -> int:
        """Bytes of memory: the peak, the margin, and an engine beside it."""
        return need(self.predicted.total) + self.regime.engine_bytes


def run(words: Sequence[str]) -> int:
    """Plan, and show the plan."""
    args = _parser().read(words)
    memory = parse_size(args.memory)
    shape = read_shape(args.model)
    found = make_plan(shape, _regime(args, memory), memory, _whole(args, "max_tokens"))
    with output(args.json) as out:
        out.document = document(found)
        _show(found, args.model, out)
    return DONE if found.fits else PROBLEMS


def make_plan(shape: Shape, regime: Regime, memory: int, tokens: int | None = None) -> Plan:
    """Plan micro-batches of `tokens`; of the most that fit, unless given."""
    most = most_tokens(shape, regime, memory)
    wanted = tokens or max(most, 1)
    rungs = () if wanted <= most else ladder(shape, regime, memory, wanted)
    return Plan(shape, regime, memory, wanted, most, footprint(shape, regime, wanted), rungs)


def document(found: Plan) -> dict[str, Any]:
    """The plan as `--json` prints it."""
    return {
        "fits": found.fits,
        "tokens_per_micro_batch": found.most,
        "tokens": found.tokens,
        "predicted_bytes": {**asdict(found.predicted), "total": found.predicted.total},
        "needed_bytes": found.needed,
        "memory_bytes": found.memory,
        "parameters": found.shape.parameters,
        "advice": [
            {"change": rung.change, "tokens_per_micro_batch": rung.tokens} for rung in found.rungs
        ],
        "regime": asdict(found.regime),
    }


def read_shape(name: str) -> Shape:
    """The shape of a config.json, of the folder that holds it, or of a model by our name.

    Raises:
        UsageError: there is no such file, it is no config, or of a kind that can't be planned.
    """
    where = f"--model {name}"
    path = _folder(name)
    if path.is_dir():
        path /= "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"{where}: {path} can't be read ({error.strerror}). A plan needs only the model's "
            "config.json: name that file, or the folder that holds it."
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{where}: {path} is not JSON. Give the config.json of a model."
        ) from error
    if not isinstance(config, Mapping):
        raise UsageError(f"{where}: {path} is not a model's config. Name another config.json.")
    return shape_of(config, where)


def _folder(name: str) -> Path:
    """Where a model's config is."""
    if name == "tiny":
        return TINY
    if name == "smollm2-135m":
        from agentrl import smollm

        return smollm.folder()
    return Path(name).expanduser()


def _show(found: Plan, name: str, out: Output) -> None:
    mode, regime = found.regime.mode, found.regime
    trained = "" if mode == "full" else f" of rank {regime.lora_rank}"
    out.say(
        f"{name}: {_counted(found.shape.parameters)} parameters, {mode}{trained}, "
        f"{regime.dtype}, {regime.optimizer}, checkpointing {regime.checkpointing}, "
        f"{regime.kernels} kernels, {regime.shards} shard{'s' * (regime.shards > 1)}"
    )
    out.say(f"peak of a micro-batch of {_tokens(found.tokens)}:")
    for part, size in asdict(found.predicted).items():
        out.say(f"  {part:<12}{in_words(size):>10}")
    out.say(f"  {'total':<12}{in_words(found.predicted.total):>10}")
    beside = f", {in_words(regime.engine_bytes)} of the engine" if regime.engine_bytes else ""
    out.say(
        f"with the margin{beside}: {in_words(found.needed)} of {in_words(found.memory)}, which "
        f"{'fits' if found.fits else 'does not fit'}"
    )
    if found.most:
        out.say(f"the largest micro-batch that fits: {_tokens(found.most)}")
    if not found.fits:
        _advise(found, out)


def _advise(found: Plan, out: Output) -> None:
    if not found.rungs:
        out.say("no change of these settings makes it fit: take shorter trajectories, a smaller")
        out.say("model or more memory")
        return
    out.say("it fits with:")
    width = max(len(rung.change) for rung in found.rungs)
    for rung in found.rungs:
        out.say(f"  {rung.change:<{width}}  up to {_tokens(rung.tokens)}")


def _tokens(count: int) -> str:
    return f"{count:,} token{'s' * (count != 1)}"


def _regime(args: argparse.Namespace, memory: int) -> Regime:
    words = {name: getattr(args, name) for name in WORDS}
    numbers = {name: _whole(args, name) for name in _NUMBERS}
    given: dict[str, Any] = {k: v for k, v in (words | numbers).items() if v is not None}
    return Regime(**given, engine_bytes=_engine(args, memory))


def _engine(args: argparse.Namespace, memory: int) -> int:
    try:
        share = float(args.engine_share)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise UsageError(
            f"--engine-share {args.engine_share}: a share is between 0 and 1. Write it like 0.4."
        )
    return {"none": 0, "asleep": ASLEEP, "awake": round(share * memory)}[args.engine]


def _whole(args: argparse.Namespace, name: str) -> int | None:
    text, flag = getattr(args, name), f"--{name.replace('_', '-')}"
    if text is None:
        return None
    plain = text.replace(",", "").replace("_", "")
    if not plain.isascii() or not plain.isdecimal() or not 0 < len(plain) < 13 or not int(plain):
        raise UsageError(f"{flag} {text[:40]}: not a positive whole number. Write it like 16384.")
    return int(plain)


def _parser() -> Parser:
    parser = Parser("plan", "say what fits into a GPU's memory, without one", EXAMPLES)
    parser.add_argument(
        "--model",
        required=True,
        help="a config.json, a folder that holds one, tiny or smollm2-135m",
    )
    parser.add_argument("--memory", required=True, help="of one device: 80GiB, 24GB, 80 (GiB)")
    parser.add_argument(
        "--max-tokens",
        help="of the longest trajectory, or micro-batch; the most that fit if absent",
    )
    for name, words in WORDS.items():
        parser.add_argument(f"--{name}", metavar="|".join(words), help=_HELP[name])
    for name, text in _NUMBERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="N", help=text)
    parser.add_argument(
        "--engine",
        choices=("awake", "asleep", "none"),
        default="none",
        help="vLLM on the same device while it trains [none]",
    )
    parser.add_argument(
        "--engine-share", default="0.4", metavar="S", help="of the memory, while awake [0.4]"
    )
    return parser


def _counted(parameters: int) -> str:
    unit, word = (1e9, "billion") if parameters >= 1e9 else (1e6, "million")
    return f"{parameters / unit:.2f} {word}"
