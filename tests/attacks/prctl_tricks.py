"""Undo what the jail set for the process."""

for name, arguments in {
    "dumpable": (4, 1),
    "keeps capabilities": (8, 1),
    "dies with its parent no more": (1, 0),
    "signalled at its parent's death": (1, 9),
    "takes in orphans": (36, 1),
    "no new privileges, undone": (38, 0),
    "filter": (22, 0),
    "debugger": (0x59616D61, -1),
    "memory map": (35, 1, 0),
    "speculation": (53, 0, 0),
    "reads the tagged": (55, 1),
    "indirect calls": (59, 11),
    "time": (33, 1),
    "core scheduling": (62, 1),
    "io flusher": (57, 1),
}.items():
    if works(call, "prctl", *arguments, *[0] * (5 - len(arguments))):
        pwn(name)
if works(call, "personality", 0x0040000 | 0x0400000):
    pwn("another personality")
if works(call, "seccomp", 1, 1 << 3, 0):
    pwn("a filter of one's own")
if works(call, "arch_prctl", 0x1012, 0):
    pwn("faults at cpuid")
