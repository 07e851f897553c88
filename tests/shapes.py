"""Shapes of public models, as their config.json gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentrl.memory import Shape, shape_of

FOLDER = Path(__file__).parent / "data" / "shapes"


def config(name: str, layers: int | None = None) -> dict[str, Any]:
    found = json.loads((FOLDER / f"{name}.json").read_text())
    return found | ({"num_hidden_layers": layers} if layers else {})


def shape(name: str, layers: int | None = None) -> Shape:
    return shape_of(config(name, layers))
