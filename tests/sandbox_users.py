"""Programs as somebody else: an ordinary user, in a container, or both.

As a module: `run_as(["script.py"], uid=1000, docker=True)`. What the user needs of Python and of
this checkout is shown to them where root's folders would be in the way, in a mount namespace.
As a program: the helper that `run_as` starts.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from agentrl.sandbox import kernel, seccomp

ROOT = Path(__file__).parents[1]
USER = 1000


def run_as(arguments, *, uid=None, docker=False, timeout=120, **options):
    """Run Python with these arguments as a user (None: as who we are); return what subprocess does.

    `docker`: with the calls refused that a plain container refuses.
    """
    helper = [sys.executable, "-P", str(Path(__file__)), str(uid or 0), str(int(docker))]
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    return subprocess.run(
        [*helper, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd="/",
        **options,
    )


@cache
def can_be(uid=None, docker=False):
    """Why a program can't be run so here; empty if it can."""
    done = run_as(["-c", "import agentrl.sandbox.kernel, os; print(os.getuid())"], uid=uid)
    if done.returncode or done.stdout.strip() != str(uid or os.getuid()):
        return f"can't run programs as uid {uid}: {done.stderr.strip()[-200:] or done.stdout}"
    return ""


def be(uid, docker):
    """Become the user, in the container."""
    if uid and os.geteuid() == 0:
        kernel.call("unshare", kernel.CLONE_NEWNS)
        private = 0x4000 | 0x4_0000
        kernel.mount("none", "/", None, private)
        _open_up([sys.base_prefix, sys.prefix, str(ROOT)])
    if docker and os.geteuid() == 0:
        seccomp.install(seccomp.docker_like())
    if uid and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    elif docker:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.install(seccomp.docker_like())


def _open_up(paths):
    """Put an open folder over each closed one, with only these paths in it."""
    found = {}
    for path in map(os.path.realpath, paths):
        above = [str(parent) for parent in reversed(Path(path).parents)]
        closed = [parent for parent in above if not os.stat(parent).st_mode & 0o1]
        if closed:
            found.setdefault(closed[0], {})[path] = os.open(path, os.O_PATH)
    bind = 0x1000 | 0x4000
    for closed, inside in found.items():
        kernel.mount("open", closed, "tmpfs", 0, "mode=755")
        for path, file in sorted(inside.items()):
            if not os.path.exists(path):
                os.makedirs(path)
                kernel.mount(f"/proc/self/fd/{file}", path, None, bind)
            os.close(file)


if __name__ == "__main__":
    be(int(sys.argv[1]), sys.argv[2] == "1")
    os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
