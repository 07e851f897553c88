"""A server without a host: `python sandbox_driver.py LEVEL`, codes by name as JSON on stdin.

Writes JSON: what each child wrote and how it ended, or at which step the server stopped.
"""

import json
import os
import sys
import traceback

from agentrl.sandbox import identity, jail
from agentrl.sandbox.result import Limits

PREFIX = os.path.realpath(sys.base_prefix)
LIBRARIES = ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", f"{PREFIX}/lib")


def plain_jail(level):
    """Show the standard library only."""
    stdlib = os.path.dirname(os.path.realpath(os.__file__))
    files = [stdlib, *(path for path in LIBRARIES if os.path.exists(path))]
    hidden = [f"{stdlib}/site-packages"]
    with open("/proc/self/uid_map", encoding="ascii") as file:
        uid = identity.spare_uid(os.getpid(), file.read()) if os.getuid() == 0 else 0
    found = [path for path in hidden if os.path.exists(path)]
    return jail.Jail(level, tuple(files), (), tuple(found), uid)


def child(prepared, slot, code, out, limits):
    """Run a code in the jail."""
    status = 1
    try:
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        jail.enter(prepared, slot, limits)
        exec(compile(code, "main.py", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def run(prepared, slot, code, limits):
    """Fork a child; what it wrote, its exit code or minus its signal, and its pid."""
    inward, out = os.pipe()
    sys.stdout.flush()
    pid = jail.fork(prepared)
    if pid == 0:
        child(prepared, slot, code, out, limits)
    os.close(out)
    with open(inward, encoding="utf-8", errors="replace") as file:
        text = file.read()
    return {"text": text, "end": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "pid": pid}


def main():
    """Prepare, then run all codes one after the other."""
    codes = json.load(sys.stdin)
    limits = Limits(**json.loads(sys.argv[2])) if len(sys.argv) > 2 else Limits(memory=128 << 20)
    try:
        prepared = jail.prepare(plain_jail(int(sys.argv[1])))
    except OSError as error:
        json.dump({"stopped": error.strerror or str(error)}, sys.stdout)
        return
    sys.path[:] = [path for path in sys.path if path.startswith(PREFIX)]
    ends = {
        name: run(prepared, slot, code, limits) for slot, (name, code) in enumerate(codes.items())
    }
    json.dump({"way": prepared.way, "ends": ends}, sys.stdout)


if __name__ == "__main__":
    main()
