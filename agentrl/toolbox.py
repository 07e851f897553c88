"""Toolbox: tools with state of their own, for any environment.

In    a subclass with @tool methods; options are keyword arguments of its `__init__`
Out   tools that an environment offers beside its own, with fresh state for each episode
Not   shared: a box belongs to one environment instance, and plays one episode at a time
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agentrl.errors import UsageError
from agentrl.task import Task
from agentrl.tooling import ToolSpec, tools_of


class Toolbox:
    """Base of sets of tools. Subclasses write @tool methods, as an environment does.

    What a subclass writes may be async; what is not runs in a thread. An environment names its
    boxes in `toolboxes`; an episode starts them in that order, each before the environment's
    own `start`, and releases them in the opposite order after its own `release`.
    """

    varies: bool = False
    """Whether its tools depend on the task: they are then read again after each `start`."""
    _owner: weakref.ref[object] | None = None

    def start(self, task: Task) -> Any:
        """Make fresh state for an episode."""
        return None

    def release(self) -> Any:
        """Give back what `start` opened.

        It is called once for each `start`, also where `start` itself broke half way.
        """
        return None

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools by name, each bound to this box.

        Called in a thread before the first `start`, and then never again, or after each where
        the box `varies`. A box whose tools are known only at run time overrides it: `ToolSpec.fn`
        is then any function that takes the arguments, and `ToolSpec.check` looks at them first.
        """
        return {name: spec.bound(self) for name, spec in tools_of(type(self)).items()}


def taken(owner: object, boxes: Iterable[Toolbox]) -> tuple[Toolbox, ...]:
    """Boxes that are noted to be an owner's: the state of an episode can't serve two.

    Raises:
        UsageError: One is no box, or another's already.
    """
    where, found = f"{type(owner).__name__}.toolboxes", tuple(boxes)
    for box in found:
        if not isinstance(box, Toolbox):
            raise UsageError(f"{where}: {type(box).__name__} is no Toolbox. Return instances.")
        before = box._owner and box._owner()
        if before is not None and before is not owner:
            raise UsageError(
                f"{where}: this {type(box).__name__} belongs to another {type(before).__name__}. "
                "Make a new one for each instance."
            )
        box._owner = weakref.ref(owner)
    return found


def tools_of_boxes(
    owner: object, own: Collection[str], boxes: Iterable[Toolbox]
) -> dict[str, ToolSpec]:
    """Tools of all boxes, whose names differ from each other and from the owner's own.

    Raises:
        UsageError: Two are called the same.
    """
    found: dict[str, ToolSpec] = {}
    for name, spec in (item for box in boxes for item in box.tools().items()):
        if name in found or name in own:
            raise UsageError(
                f"{type(owner).__name__}: two tools are called {name}. Rename one, "
                "or leave a box out."
            )
        found[name] = spec
    return found
