"""What is checked: an environment that can be made again and again, and the lines it stands on.

In    a name, a class or an instance, and options
Out   Subject: fresh instances, the text that leads to it from elsewhere, `file:line` of its parts
Not   a judgement: the checks do that
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from agentrl import registry
from agentrl.env import ToolEnv
from agentrl.errors import EnvironmentFault, UsageError, blame
from agentrl.tooling import ToolSpec

_NAMED = re.compile(r"(?:\w+: )?(\w+)\.(\w+):")
_TOOL = re.compile(r"tool (\w+):")


@dataclass(frozen=True)
class Subject:
    """An environment to look at."""

    name: str
    """What a person calls it."""
    kind: type[ToolEnv]
    make: Callable[[], ToolEnv]
    """A fresh instance."""
    address: str = ""
    """What another process finds it by; empty where it can't."""
    options: Mapping[str, Any] | None = None

    def line(self, *attributes: str) -> str:
        """`file:line` of the first of these that the author wrote, else of the class."""
        for attribute in attributes:
            for base in self.kind.__mro__:
                if base is ToolEnv:
                    break
                if attribute in vars(base):
                    found = vars(base)[attribute]
                    return _place(getattr(found, "__func__", found)) or self._class_line
        return self._class_line

    def assigned(self, name: str) -> str:
        """`file:line` where the author's classes or modules give a name its value; or nothing."""
        written = self.kind.__mro__[: self.kind.__mro__.index(ToolEnv)]
        for owner in (*written, *(sys.modules.get(base.__module__) for base in written)):
            with suppress(TypeError, OSError):
                lines, first = inspect.getsourcelines(owner) if owner else ([], 0)
                for number, line in enumerate(lines, max(first, 1)):
                    if re.match(rf"\s*{re.escape(name)}\s*[:=]", line):
                        file = inspect.getsourcefile(owner) if owner else ""
                        return _shown(file or "", number)
        return ""

    def tool_line(self, spec: ToolSpec) -> str:
        """`file:line` of a tool; of the class where it is made at run time."""
        fn: Any = spec.fn
        while isinstance(fn, partial):
            fn = fn.func
        return _place(fn) or self._class_line

    def raised(self, error: BaseException) -> str:
        """`file:line` of the author's code that an exception came through, the innermost one."""
        where, seen = "", error
        while True:
            trace = seen.__traceback__
            while trace is not None:
                if self._wrote(trace.tb_frame):
                    where = _shown(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
                trace = trace.tb_next
            inner = seen.__cause__ or seen.__context__
            if inner is None:
                return where or self.told(str(error))
            seen = inner

    def told(self, problem: str) -> str:
        """`file:line` of what a recorded problem names: `Class.method: ...` or `tool x: ...`."""
        if match := _TOOL.search(problem):
            return self.line(match[1])
        match = _NAMED.match(problem)
        return self.line(match[2]) if match else self.line(*re.findall(r"^\w+", problem))

    def stuck(self) -> str:
        """`file:line` where a thread is in the author's code right now; else of the class."""
        found = [place for frame in sys._current_frames().values() if (place := self._in(frame))]
        # Another instance of the file may hang since an earlier time: its own come first.
        return max(found, key=lambda place: place[0])[1] if found else self._class_line

    def _in(self, frame: FrameType | None) -> tuple[bool, str] | None:
        """Where a stack is in the author's code, and whether in an instance of this class."""
        while frame is not None and not self._wrote(frame):
            frame = frame.f_back
        if frame is None:
            return None
        own = type(frame.f_locals.get("self")) is self.kind
        return own, _shown(frame.f_code.co_filename, frame.f_lineno)

    @property
    def _class_line(self) -> str:
        return _place(self.kind) or self.name

    def _wrote(self, frame: FrameType) -> bool:
        files = {
            vars(sys.modules[base.__module__]).get("__file__")
            for base in self.kind.__mro__[: self.kind.__mro__.index(ToolEnv)]
            if base.__module__ in sys.modules
        }
        return frame.f_code.co_filename in files


def subject_of(env: str | type[ToolEnv] | ToolEnv, options: Mapping[str, Any]) -> Subject:
    """What a name, a class or an instance stands for.

    Raises:
        UsageError: there is no such environment, or the options are not its own.
    """
    if isinstance(env, str):
        kind = registry.resolve(env)
        registry.check_options(env, options)
        return Subject(env, kind, partial(kind, **options), registry.address(env), dict(options))
    if isinstance(env, type) and issubclass(env, ToolEnv):
        return Subject(env.__name__, env, partial(env, **options), _address(env), dict(options))
    unwrapped = getattr(env, "unwrapped", env)
    if not isinstance(unwrapped, ToolEnv) or options:
        raise UsageError(
            f"check_env: {type(env).__name__} with {len(options)} options. Give a name, a class "
            "of agentrl.ToolEnv with options=, or an instance without."
        )
    return Subject(type(unwrapped).__name__, type(unwrapped), partial(_copied, unwrapped))


def _copied(env: ToolEnv) -> ToolEnv:
    with blame(EnvironmentFault, "copying the instance"):
        return copy.deepcopy(env)


def _address(kind: type[ToolEnv]) -> str:
    """`module:Class`, or `file.py:Class` where the module can't be imported by its name."""
    name, module = kind.__qualname__, kind.__module__
    if "<locals>" in name or module == "__main__":
        return ""
    spec = None
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(module)
    file = inspect.getsourcefile(kind)
    if spec is not None and spec.origin == file and not module.startswith("_"):
        return f"{module}:{name}"
    return f"{file}:{name}" if file else ""


def _place(thing: Any) -> str:
    thing = getattr(thing, "fget", thing)
    with suppress(TypeError, OSError):
        file = inspect.getsourcefile(thing)
        if file:
            return _shown(file, inspect.getsourcelines(thing)[1])
    return ""


def _shown(file: str, line: int) -> str:
    """Relative to the current folder where it is inside."""
    path, here = Path(file), Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{line}"
