"""`agentrl envs new`: an environment to begin with, and its test.

In    a name
Out   NAME.py and test_NAME.py, which pass as they are
Not   over what is there: nothing is replaced
"""

from __future__ import annotations

import keyword
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from agentrl.cli.entry import DONE
from agentrl.cli.output import output
from agentrl.cli.parser import Parser
from agentrl.errors import UsageError

EXAMPLES = ("store", "store --out mine")
FOLDER = Path(__file__).parent / "templates"


def run(words: Sequence[str]) -> int:
    """Write an environment and its test."""
    parser = Parser("envs new", "write an environment to begin with, and its test", EXAMPLES)
    parser.add_argument("name", help="of the environment: letters, digits and _")
    parser.add_argument("--out", default=".", help="folder [.]")
    args = parser.read(words)
    check_name(args.name)
    folder = Path(args.out)
    files = {
        folder / f"{args.name}.py": "env.txt",
        folder / f"test_{args.name}.py": "test.txt",
    }
    for path in files:
        if path.exists():
            raise UsageError(f"{path}: it is there already. Take another name, or another --out.")
    values = {"name": args.name, "cls": class_name(args.name)}
    with output(args.json) as out:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path, template in files.items():
                text = (FOLDER / template).read_text(encoding="utf-8")
                path.write_text(Template(text).substitute(values), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"--out {args.out}: cannot be written ({error.strerror}). Give another folder."
            ) from error
        env, test = (shlex.quote(str(path)) for path in files)
        nexts = [
            f"agentrl envs check {env}",
            f"agentrl envs play {env}",
            f"agentrl train --env {env}",
        ]
        out.document = {"files": [str(path) for path in files], "next": nexts}
        out.say(f"wrote {env} and {test}")
        out.say("\n".join(f"next: {line}" for line in nexts))
    return DONE


def check_name(name: str) -> None:
    """Refuse names that could not be imported, or would hide what can.

    Raises:
        UsageError: with what would do.
    """
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise UsageError(f"{name!r}: it can't name a module. Use letters, digits and _.")
    if name.startswith(("_", "test_")):
        raise UsageError(f"{name}: names that begin so are left out by tools. Take another.")
    if name in sys.stdlib_module_names or name in ("agentrl", "conftest"):
        raise UsageError(f"{name}: it would hide the module of that name. Take another.")


def class_name(name: str) -> str:
    """`two_words` as TwoWords."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_") if part)
