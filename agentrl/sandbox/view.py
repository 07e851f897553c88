"""View: which files a policy's code may see.

In    names of installed distributions
Out   View: the standard library, the system's shared libraries, and of the installed
      packages the named ones with what they need
Not   the rest of site-packages: an environment there could be imported and asked for answers
"""

from __future__ import annotations

import glob
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentrl.errors import UsageError, suggestion

_SYSTEM_PREFIXES = ("/usr", "/usr/local")
_SECRET = ("agentrl", "agentrl_environments", "agentrl_tools")
"""Packages that hold answers, or how they are judged."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown to the code."""

    files: tuple[str, ...]
    """Files and folders that may be read, with all beneath."""
    folders: tuple[str, ...]
    """Folders that may be listed: where the packages lie, for `sys.path`."""
    hidden: tuple[str, ...]
    """Folders beneath `files` that are not shown."""
    modules: tuple[str, ...] = ()
    """What can be imported of the distributions that were named."""


def view(packages: Sequence[str] = ()) -> View:
    """Work out what code may see that may import these distributions.

    Args:
        packages: names as pip has them; what they require comes along.

    Raises:
        UsageError: one is not installed, or must not be shown.
    """
    stdlib, hidden = _standard_library()
    files, folders, modules = [*stdlib, *_shared_libraries()], [], []
    named = {canonicalize_name(name) for name in packages}
    for key, found in _closure(packages).items():
        base = os.path.realpath(str(found.locate_file("")))
        tops = _tops(found, base)
        folders.append(base)
        files += [f"{base}/{top}" for top in tops]
        if key in named:
            packs = [top for top in tops if os.path.exists(f"{base}/{top}/__init__.py")]
            modules += [top.replace("/", ".") for top in packs]
    return View(_unique(files), _unique(folders), _unique(hidden), _unique(modules))


def _standard_library() -> tuple[list[str], list[str]]:
    """Its folders, and the folders of installed packages within them."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    # A virtual environment names its own platstdlib, which holds nothing.
    folders = sorted(path for path in paths if os.path.exists(f"{path}/os.py"))
    folders += [path for path in sys.path if path.endswith("lib-dynload")]
    prefix = os.path.realpath(sys.base_prefix)
    if prefix not in _SYSTEM_PREFIXES:
        folders.append(f"{prefix}/lib")
    hidden = [
        path
        for folder in folders
        for pattern in ("*-packages", "*/*-packages")
        for path in glob.glob(f"{folder}/{pattern}")
    ]
    return folders, hidden


def _shared_libraries() -> Iterator[str]:
    """Yield the loader, where it looks, and the time zones."""
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    folders = ["/lib64", "/usr/lib64"]
    if triplet:
        folders += [f"/lib/{triplet}", f"/usr/lib/{triplet}", f"/usr/local/lib/{triplet}"]
    files = ["/etc/ld.so.cache", "/usr/share/zoneinfo"]
    for folder in ("/lib", "/usr/lib", "/usr/local/lib", sysconfig.get_config_var("LIBDIR")):
        files += sorted(glob.glob(f"{folder}/*.so*")) if folder else []
    yield from (path for path in (*folders, *files) if os.path.exists(path))


def _closure(packages: Iterable[str]) -> dict[str, Distribution]:
    """The distributions of these names and all that they require and that is installed."""
    found: dict[str, Distribution] = {}
    waiting = [(name, "") for name in reversed(tuple(packages))]
    while waiting:
        name, asker = waiting.pop()
        key = canonicalize_name(name)
        if key in found:
            continue
        installed = _installed(name, asker)
        if installed is None:
            continue
        found[key] = installed
        waiting += [(need.name, name) for need in _needs(installed)]
    return found


def _installed(name: str, asker: str) -> Distribution | None:
    try:
        installed = distribution(name)
    except (PackageNotFoundError, ValueError):
        if asker:
            return None
        known = {str(other.metadata["Name"]) for other in distributions()}
        hint = suggestion(name, sorted(known), f"Install it: pip install {name}")
        raise UsageError(f"packages: {name!r} is not installed here. {hint}") from None
    tops = {path.parts[0] for path in installed.files or ()}
    if tops & set(_SECRET) or canonicalize_name(name).startswith("agentrl"):
        needs = f", which {asker} requires," if asker else ""
        raise UsageError(
            f"packages: {name!r}{needs} cannot be shown to a policy's code: it could read "
            "tasks and their answers there. Leave it out."
        )
    return installed


def _needs(installed: Distribution) -> Iterator[Requirement]:
    for text in installed.requires or ():
        need = Requirement(text)
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            yield need


def _tops(installed: Distribution, base: str) -> list[str]:
    """The folders and single files of a distribution, as short as it has them for itself."""
    tops = set()
    for path in installed.files or ():
        if path.parts[0] in ("..", "/") or path.suffix == ".pth" or path.parts[0] == "__pycache__":
            continue
        top = _own(path, base)
        if os.path.exists(f"{base}/{top}"):
            tops.add(top)
    if all(top.endswith("-info") or top.startswith("__editable__") for top in tops):
        name = installed.metadata["Name"]
        raise UsageError(
            f"packages: {name!r} is installed from a folder of sources (editable), and its "
            "files are not known. Install it without -e."
        )
    return sorted(tops)


def _own(path: PurePosixPath, base: str) -> str:
    """The part of a path that is its distribution's alone: a package, or beneath a namespace."""
    for length in range(1, len(path.parts)):
        top = "/".join(path.parts[:length])
        if top.endswith(("-info", ".libs")) or os.path.exists(f"{base}/{top}/__init__.py"):
            return top
    return str(path)


def _unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
