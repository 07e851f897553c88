"""`python -m agentrl` is the command `agentrl`."""

import sys

from agentrl.cli import main

sys.exit(main())
