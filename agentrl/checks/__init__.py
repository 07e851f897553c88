"""Checks of an environment: what breaks reinforcement learning, found before it is trained in.

In    an environment by name, class or instance
Out   Report: a finding for each check, with the line to change where one failed
Not   a proof: each looks at a few tasks, and says how many
"""

from agentrl.checks.report import Finding, Problem, Report
from agentrl.checks.run import check_env

__all__ = ["Finding", "Problem", "Report", "check_env"]
