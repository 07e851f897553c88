"""tool_math with its calculator taken away: the tool is not offered, and calls find nothing."""

from agentrl_environments.tool_math import ToolMath


class NoCalculator(ToolMath):
    """Arithmetic without a calculator: what is left without the tool."""

    calculator = None  # type: ignore[assignment]
