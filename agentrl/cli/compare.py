"""`agentrl compare`: evaluations of the same tasks → what differs, and how surely."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.cli.table import aligned, interval
from agentrl.comparison import Comparison, against, compare
from agentrl.errors import UsageError
from agentrl.recorded import recorded_in

EXAMPLES = (
    "evals/before evals/after",
    "runs/tool_math-001@0 runs/tool_math-001 --json",
)


def run(words: Sequence[str]) -> int:
    """Compare all that is named with the first."""
    parser = Parser("compare", "compare evaluations of the same tasks, paired by task", EXAMPLES)
    parser.add_argument(
        "what",
        nargs="+",
        metavar="EVALUATION",
        help="a folder of `agentrl eval --out`, RUN or RUN@STEP, or a file of episodes",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="compare what is unlike in more than the policy, and say in what",
    )
    args = parser.read(words)
    if len(args.what) < 2:
        raise UsageError(f"{args.what[0]}: with what shall it be compared? Name two or more.")
    with output(args.json) as out:
        found = compare([recorded_in(text) for text in args.what], force=args.force)
        out.document = against(found)
        out.say("\n\n".join(_told(one) for one in found))
    return 0


def _told(one: Comparison) -> str:
    first, second = (None if f is None else f.as_json() for f in one.accuracy)
    rows = [
        ("from", one.first),
        ("to", one.second),
        ("tasks", f"{one.tasks} paired, {one.unpaired} not"),
        ("accuracy", f"{interval(first)}"),
        ("", f"{interval(second)}"),
        ("difference", _signed(one)),
        ("by task", f"{one.better} better, {one.worse} worse, {one.same} the same"),
        ("sign test", f"p = {one.p:.3g}"),
        *(("unlike", why) for why in one.unlike),
    ]
    return aligned(rows)


def _signed(one: Comparison) -> str:
    found = one.difference
    assert found is not None
    return f"{found.mean:+.3f}   95% interval {found.low:+.3f} to {found.high:+.3f}"
