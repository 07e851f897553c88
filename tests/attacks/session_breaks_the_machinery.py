"""In a session: change what answers for the cells, so that the next one finds it broken."""

# kind: session
# ends: ok error memory killed timeout_cpu timeout_wall output_limit
# may: TypeError
import sys

sys.setprofile(lambda *_: os._exit(7))
# --- then
import sys


def refuse(event, arguments):
    if event in ("compile", "exec", "import"):
        raise RuntimeError("no more cells")


sys.addaudithook(refuse)
# --- then
print("third cell")
# --- then
import gc
import types

for thing in gc.get_objects():
    if isinstance(thing, types.FunctionType) and thing.__module__.startswith("agentrl"):
        thing.__code__ = (lambda *_, **__: "sandbox_failure").__code__
# --- then
print("fifth cell")
# --- then
import builtins
import json
import os
import socket

builtins.compile = builtins.exec = builtins.eval = None
json.dumps = json.loads = os.read = os.write = None
socket.socket = None
# --- then
print("seventh cell")
# --- then
import gc

gc.callbacks.append(lambda *_: os._exit(0))
# --- then
[[] for _ in range(100_000)]
# --- then
import resource

works(resource.setrlimit, resource.RLIMIT_AS, (1 << 20, 1 << 20))
works(resource.setrlimit, resource.RLIMIT_NOFILE, (0, 0))
# --- then
import os

filled = []
try:
    while True:
        filled.append(bytearray(1 << 16))
except MemoryError:
    pass
# --- then
print("twelfth cell")
