"""`agentrl rescore`: a new reward on old episodes, written beside them."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.cli.table import aligned, interval
from agentrl.recorded import recorded_in

EXAMPLES = (
    "evals/shop --reward stricter.py:reward",
    "runs/tool_math-001/groups --json",
)


def run(words: Sequence[str]) -> int:
    """Score recorded episodes again."""
    parser = Parser("rescore", "give recorded episodes a new reward, without a model", EXAMPLES)
    parser.add_argument(
        "what",
        metavar="EPISODES",
        help="a folder of `agentrl eval --out`, RUN or RUN@STEP, or a file of episodes",
    )
    parser.add_argument(
        "--reward",
        default="",
        metavar="FILE.py:FUNCTION",
        help="called with task and trajectory; without it the environment's own reward is used, "
        "and recorded turns are played again",
    )
    parser.add_argument("--out", default="", help="a new folder; without it, beside the old lines")
    args = parser.read(words)
    with output(args.json) as out:
        from agentrl.rescore import rescore

        found = rescore(recorded_in(args.what), args.reward, args.out)
        out.document = found.as_json()
        rows = [
            ("reward", found.reward),
            ("episodes", f"{found.episodes}, of which {found.changed} changed"),
            ("correct", f"{found.to_right} now right, {found.to_wrong} now wrong"),
            ("unscored", f"{found.broken} without a reward, {found.unknown} without their task"),
            *([("the first says", found.problem)] if found.problem else []),
            ("diverged", f"{found.diverged} in which the environment said something else"),
            ("accuracy", interval(found.summary["accuracy"])),
            ("written", found.path),
        ]
        out.say(aligned(rows))
    return 0
