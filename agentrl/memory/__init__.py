"""Memory: what an update takes, before it runs and corrected as it runs."""

from agentrl.memory.calibration import Calibration
from agentrl.memory.footprint import Footprint, footprint, most_tokens
from agentrl.memory.regime import Regime
from agentrl.memory.shape import Shape, shape_of

__all__ = ["Calibration", "Footprint", "Regime", "Shape", "footprint", "most_tokens", "shape_of"]
