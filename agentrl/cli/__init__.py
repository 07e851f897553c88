"""The command line: one file a command, loaded when that command is called."""

from agentrl.cli.entry import main

__all__ = ["main"]
