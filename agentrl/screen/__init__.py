"""The live view: what a run has told → a panel that a terminal shows, redrawn in place.

In    events of a run, a clock, a terminal
Out   a panel; prints of environments in the log and not on it; the terminal as it was
Not   plain lines (console.py), nor a record: nothing here is read back
"""

from agentrl.screen.live import live

__all__ = ["live"]
