import json
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.sandbox import identity
from tests.sandbox_users import USER, can_be, run_as

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")

DRIVER = str(Path(__file__).with_name("sandbox_driver.py"))
WAYS = {
    "namespaces": (3, None, False),
    "namespaces, user": (3, USER, False),
    "landlock": (2, None, False),
    "container": (2, None, True),
    "container, user": (2, USER, True),
}
HELD = [*WAYS]


def driven(way, codes, limits=None):
    """What a server of its own makes of the codes; skips where this machine can't."""
    level, user, docker = WAYS[way]
    if why := can_be(user):
        pytest.skip(why)
    arguments = [DRIVER, str(level), *([json.dumps(limits)] if limits else [])]
    done = run_as(arguments, uid=user, docker=docker, input=json.dumps(codes))
    assert done.returncode == 0, done.stderr[-2000:]
    came = json.loads(done.stdout)
    if "stopped" in came:
        pytest.skip(f"level {level} is not possible here: {came['stopped']}")
    return came


def texts(way, codes, limits=None):
    return {name: end["text"].strip() for name, end in driven(way, codes, limits)["ends"].items()}


TRY = """
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
def refused(attack):
    try:
        return attack() == -1
    except OSError:
        return True
"""
REFUSED = {
    "reading": "open('/etc/hostname').read()",
    "reading the processes": "open('/proc/self/maps').read()",
    "reading what is beside": f"open({__file__!r}).read()",
    "listing": "os.listdir('/')",
    "writing": "open(os.__file__, 'a')",
    "changing modes": "os.chmod(os.__file__, 0o777)",
    "changing dates": "os.utime(os.__file__)",
    "emptying": "os.truncate(os.__file__, 0)",
    "linking": "os.link(os.__file__, 'x')",
    "forking": "os.fork()",
    "starting": "os.execv('/bin/true', ['true'])",
    "connecting": "__import__('socket').socket()",
    "signalling": "os.kill(os.getppid(), 0)",
    "signalling all": "os.kill(-1, 0)",
    "tracing": "libc.ptrace(0x4206, os.getppid(), 0, 0)",
    "namespaces": "libc.unshare(0x10000000)",
    "mounting": "libc.mount(b'x', b'/', b'tmpfs', 0, None)",
    "becoming root": "os.setuid(0)",
    "memory without a limit": "os.memfd_create('x')",
    "being dumped": "libc.prctl(4, 1, 0, 0, 0)",
    "outliving its server": "libc.prctl(1, 0, 0, 0, 0)",
}


@pytest.mark.parametrize("way", HELD)
def test_what_the_code_must_not_do_is_refused_to_it(way):
    tries = "".join(f"print({name!r}, refused(lambda: {do}))\n" for name, do in REFUSED.items())
    came = texts(way, {"": TRY + tries})[""]
    assert came.splitlines() == [f"{name} True" for name in REFUSED]


@pytest.mark.parametrize("way", HELD)
def test_honest_code_runs(way):
    honest = {
        "threads": "import concurrent.futures as c\n"
        "print(sum(c.ThreadPoolExecutor(4).map(abs, range(9))))",
        "asyncio": "import asyncio\nprint(asyncio.run(asyncio.sleep(0, 36)))",
        "library": "import sqlite3, json, decimal, ctypes, uuid, lzma\nprint(36)",
        "time": "import time\ntime.sleep(0.01)\nprint(36 * (time.process_time() > 0))",
        "null": "open('/dev/null', 'w').write('x')\nprint(36)",
    }
    assert set(texts(way, honest).values()) == {"36"}


@pytest.mark.parametrize("way", HELD)
def test_the_code_is_never_root(way):
    came = driven(way, {"": "import os\nprint(os.getuid(), os.getgid(), os.getgroups())"})
    uid, gid, groups = came["ends"][""]["text"].split(maxsplit=2)
    assert uid == gid != "0"
    assert groups.strip() in ("[]", "[65534]")


@pytest.mark.parametrize("way", HELD)
def test_no_descriptor_of_the_server_is_left(way):
    look = "print([n for n in range(300) if libc.fcntl(n, 1) >= 0])"
    assert texts(way, {"": TRY + look})[""] == "[0, 1, 2]"


@pytest.mark.parametrize("way", HELD)
def test_memory_is_limited_beyond_what_the_child_began_with(way):
    grow = (
        "try:\n    x = bytearray({} << 20)\n    print('yes')\n"
        "except MemoryError:\n    print('no')\n"
    )
    codes = {"fits": grow.format(90), "does not": grow.format(129)}
    assert texts(way, codes) == {"fits": "yes", "does not": "no"}


@pytest.mark.parametrize("way", HELD)
def test_limits_are_those_asked_for_and_cannot_be_raised(way):
    look = (
        "import resource as r\n"
        "print([r.getrlimit(n) for n in (r.RLIMIT_CPU, r.RLIMIT_NOFILE, r.RLIMIT_CORE)])\n"
        "print(refused(lambda: libc.syscall(302, 0, 7, (ctypes.c_long * 2)(99, 99), 0)))"
    )
    came = texts(way, {"": TRY + look}, {"cpu": 1.5, "files": 20})[""]
    assert came.splitlines() == ["[(3, 3), (20, 20), (0, 0)]", "True"]


@pytest.mark.parametrize("way", ["namespaces", "namespaces, user"])
def test_each_child_is_alone_with_a_folder_that_vanishes(way):
    code = (
        "import os, tempfile\nprint(os.getpid(), os.getcwd(), os.listdir())\n"
        "open('left', 'w').write('x')\n"
        "os.mkdir('a')\nos.rename('left', 'a/left')\nos.chmod('a', 0o700)\n"
        "try:\n    open('big', 'wb').write(bytes(3 << 20))\n"
        "except OSError as error:\n    print(error.errno)\n"
    )
    came = texts(way, {"first": code, "second": code}, {"scratch": 2 << 20})
    assert set(came.values()) == {"1 /scratch/work []\n28"}


@pytest.mark.parametrize("way", ["namespaces", "namespaces, user"])
def test_a_data_base_in_the_folder_works_though_locks_are_not_taken(way):
    code = (
        "import sqlite3\nbase = sqlite3.connect('base')\nbase.execute('create table t (x)')\n"
        "base.execute('insert into t values (36)')\nbase.commit()\n"
        "print(sqlite3.connect('base').execute('select x from t').fetchone())"
    )
    assert texts(way, {"": code})[""] == "(36,)"


@pytest.mark.parametrize("way", ["landlock", "container", "container, user"])
def test_without_namespaces_there_is_no_folder_to_write_in(way):
    came = texts(way, {"": "import tempfile\ntempfile.mkdtemp()"})[""]
    assert "No usable temporary directory" in came


@pytest.mark.parametrize("way", ["namespaces", "landlock"])
def test_children_of_root_have_uids_of_their_own(way):
    if can_be(USER):
        pytest.skip("only root hands out uids")
    look = "import os\nprint(os.getuid())"
    came = texts(way, {"a": look, "b": look})
    assert int(came["b"]) == int(came["a"]) + 1


def test_threads_are_limited_where_the_user_is_the_child_s_own():
    code = (
        "import threading\nthreading.stack_size(64 << 10)\nstay = threading.Event()\n"
        "count = 0\ntry:\n    for count in range(99):\n"
        "        threading.Thread(target=stay.wait, daemon=True).start()\n"
        "except RuntimeError:\n    print(count)\n"
    )
    for way in ("namespaces", "namespaces, user"):
        assert texts(way, {"": code}, {"processes": 12})[""] == "11"


@pytest.mark.parametrize("user", [None, USER])
def test_the_new_root_holds_even_without_the_layers_upon_it(user):
    if why := can_be(user):
        pytest.skip(why)
    code = (
        f"import sys\nsys.path.insert(0, {str(Path(DRIVER).parent)!r})\n"
        "from sandbox_driver import *\nimport errno, socket\n"
        "seen = plain_jail(3)\njail.prepare(seen)\n"
        "def error(attack):\n    try:\n        attack()\n    except OSError as error:\n"
        "        return errno.errorcode[error.errno]\n"
        "tops = {path.split('/')[1] for path in seen.files} | {'dev', 'scratch', 'lib', 'usr'}\n"
        "print(set(os.listdir('/')) - tops, sorted(os.listdir('/dev')))\n"
        "print([os.listdir(path) for path in seen.hidden], os.listdir('/scratch/work'))\n"
        "print(error(lambda: os.utime(os.__file__)), error(lambda: os.mkdir('/new')))\n"
        "print(error(lambda: os.chmod(os.__file__, 0o644)), error(lambda: os.listdir('/old')))\n"
        "print(error(lambda: open('/dev/null', 'w').write('x')), socket.gethostname())\n"
        "print(error(lambda: socket.create_connection(('127.0.0.1', 9), 1)))\n"
    )
    driven("namespaces" if user is None else "namespaces, user", {})
    done = run_as(["-c", code], uid=user)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "set() ['null', 'urandom', 'zero']",
        "[[]] []",
        "EROFS EROFS",
        "EROFS ENOENT",
        "None sandbox",
        "ENETUNREACH",
    ]


def test_no_namespace_is_to_be_had_in_a_container():
    done = run_as([DRIVER, "3"], docker=True, input="{}")
    assert json.loads(done.stdout) == {"stopped": "unshare: Operation not permitted"}


def test_a_child_dies_with_its_server():
    code = (
        "import sys\nfrom sandbox_driver import *\nimport signal, select\n"
        "prepared = jail.prepare(plain_jail(int(sys.argv[1])))\n"
        "inward, out = os.pipe()\npid = jail.fork(prepared)\n"
        "code = 'print(1, flush=True); import time; time.sleep(60)'\n"
        "if pid == 0:\n    child(prepared, 0, code, out, Limits())\n"
        "assert os.read(inward, 2)\nprint(pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = f"import sys\nsys.path.insert(0, {str(Path(DRIVER).parent)!r})\n"
    done = run_as(["-c", path + code, "2"], timeout=60)
    assert done.returncode == -9
    until = time.monotonic() + 30
    while Path(f"/proc/{done.stdout.strip()}/root").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("pass", ""),
        ("import mmap\nshared = mmap.mmap(-1, 4096)", "shares memory with forks (/dev/zero"),
        (
            "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
            "2 run",
        ),
    ],
)
def test_a_server_that_would_share_something_with_children_does_not_serve(before, why):
    code = (
        f"import sys\nsys.path.insert(0, {str(Path(DRIVER).parent)!r})\n"
        f"from sandbox_driver import *\nprepared = jail.prepare(plain_jail(2))\n{before}\n"
        "try:\n    jail.seal(prepared)\nexcept OSError as error:\n    print(error, flush=True)\n"
        "os._exit(0)"
    )
    done = run_as(["-c", code])
    assert done.returncode == 0, done.stderr
    assert why in done.stdout
    assert bool(why) == bool(done.stdout)


@given(st.integers(1, 2**22), st.integers(1, 2**22))
def test_servers_that_live_at_the_same_time_share_no_uid(one, other):
    everybody = "0 0 4294967295\n"
    first, second = (identity.spare_uid(pid, everybody) for pid in (one, other))
    assert first == second or abs(first - second) >= identity.SLOTS
    assert first >= 0x7000_0000
    assert first + identity.SLOTS < 2**31
    assert (first == second) == (one % 2**17 == other % 2**17)


@pytest.mark.parametrize(
    ("uid_map", "least", "most"),
    [
        ("0 100000 65536", 30_000, 65_535),
        ("0 1000 1", 0, 0),
        ("", 0, 0),
        ("0 1000 1\n1 2 65535", 30_000, 65_535),
    ],
)
def test_a_uid_is_taken_from_those_that_exist_here(uid_map, least, most):
    for pid in (1, 77, 4_000_000):
        uid = identity.spare_uid(pid, uid_map)
        assert least <= uid
        assert uid + identity.SLOTS * bool(uid) <= most + 1
