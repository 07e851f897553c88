"""Selection: keep the few trajectories of each group that carry the most contrast."""

from agentrl.selection.choose import select
from agentrl.selection.effective import effective_tokens
from agentrl.selection.report import GroupReport, Report, Selection

__all__ = ["GroupReport", "Report", "Selection", "effective_tokens", "select"]
