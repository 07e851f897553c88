"""Graders: find the answer in what a policy said, and compare it with the gold answer.

In    what a policy said; a gold answer
Out   `final_answer`, the text of the answer; `math_equal`, a Verdict of three values;
      `is_number`, whether both are done in no time
Not   anything that runs in this process on a policy's behalf: no eval, no computer algebra

    extract     a text → the text of the answer
    latex       LaTeX and Unicode → one spelling
    structure   a text → Form: lists, relations, brackets; splitting and leaves help
    expression  LaTeX arithmetic → the exact calculator; units, values, points
    compare     Form against Form
    symbolic    tier 2, in the sandbox
    equal       both tiers → Verdict
"""

from __future__ import annotations

from agentrl.graders.equal import check_gold, is_number, math_equal
from agentrl.graders.extract import Format, final_answer
from agentrl.graders.symbolic import Runner
from agentrl.graders.verdict import Policy, Verdict, reward_of

__all__ = [
    "Format",
    "Policy",
    "Runner",
    "Verdict",
    "check_gold",
    "final_answer",
    "is_number",
    "math_equal",
    "reward_of",
]
