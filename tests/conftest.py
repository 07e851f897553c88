"""What holds for all tests."""

from __future__ import annotations

import hypothesis

# A busy machine is no failure, and a failure must be the same the next time.
hypothesis.settings.register_profile("agentrl", deadline=None, derandomize=True)
hypothesis.settings.load_profile("agentrl")
