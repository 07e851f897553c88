"""Import the framework, the environments and the tests, to make the tasks again with answers."""

# bare: wins
import importlib
import sys

roots = [HOST["repo"], HOST["repo"] + "/environments", HOST["repo"] + "/tools", HOST["site"]]
sys.path += roots
for name in ("agentrl_environments", "agentrl_environments.tool_math", "agentrl_tools", "tests"):
    if works(importlib.import_module, name) and getattr(sys.modules[name], "__file__", None):
        pwn(f"imported {name}")
for name in ("agentrl.env", "agentrl.task", "agentrl.exact", "agentrl.graders"):
    if works(importlib.import_module, name):
        pwn(f"imported {name}")
for root in [*roots, *sys.path]:
    for path in (
        "environments/agentrl_environments/tool_math.py",
        "agentrl_environments/tool_math.py",
        "agentrl/env.py",
        "agentrl_pods.pth",
    ):
        if works(open, os.path.join(root, path)):
            pwn(f"read {path}")
for name in list(sys.modules):
    # A folder that was merely found to exist becomes an empty module without a file.
    if (
        name.startswith(("agentrl_environments", "agentrl_tools", "tests."))
        or name == "agentrl.env"
    ):
        pwn(f"{name} is loaded")
