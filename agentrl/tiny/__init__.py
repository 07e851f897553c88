"""The embedded policy: a small chat model that lives in the package.

In    nothing
Out   FOLDER, which loads like any folder of a Hugging Face causal language model
Not   the way it was made: `python -m agentrl.tiny` rebuilds it, provenance.json says how
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
