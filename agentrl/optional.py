"""Optional packages: brought in where they are used, or a line that says how to get them.

In    a module's name, the extra that brings it, what needs it
Out   the module
Not   a check of its release: the extra does that
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from agentrl.errors import UsageError

# On some processors it reports a faster kernel that it would have downloaded.
_TALKATIVE = "bitsandbytes"


def need(module: str, extra: str, where: str) -> Any:
    """Import a module that only some settings need.

    Raises:
        UsageError: it is not installed.
    """
    talk = logging.getLogger(_TALKATIVE)
    level = talk.level
    talk.setLevel(logging.ERROR)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"{where}: it needs {module}, which is not installed or does not work here "
            f"({error}). Get it with: pip install 'agentrl-pods[{extra}]'."
        ) from error
    finally:
        talk.setLevel(level)
