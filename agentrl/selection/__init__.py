"""Selection: keep the few trajectories of each group that carry the most contrast."""

from agentrl.selection.choose import select
from agentrl.selection.report import GroupReport, Report, Selection

__all__ = ["GroupReport", "Report", "Selection", "select"]
