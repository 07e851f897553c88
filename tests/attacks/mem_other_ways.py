"""Address space by every road: shared, huge, locked, grown, moved."""

# ends: ok error memory killed

limit = HOST["memory"] + (64 << 20)
shared, private, anonymous = 0x01, 0x02, 0x20
roads = {
    "shared": shared | anonymous,
    "huge": private | anonymous | 0x40000,
    "unreserved": private | anonymous | 0x4000,
    "grows down": private | anonymous | 0x0100,
    "populated": private | anonymous | 0x8000,
}
for road, flags in roads.items():
    try:
        call("mmap", 0, limit, 3, flags, -1, 0)
        pwn(f"{road}: {limit >> 20} MiB in one piece")
    except OSError:
        pass
for road, flags in roads.items():
    got = 0
    areas = []
    try:
        while got < limit:
            areas.append(call("mmap", 0, 8 << 20, 3, flags, -1, 0))
            got += 8 << 20
        pwn(f"{road}: {got >> 20} MiB in pieces")
    except OSError:
        pass
    for area in areas:
        call("munmap", area, 8 << 20)
try:
    area = call("mmap", 0, 4096, 3, private | anonymous, -1, 0)
    call("mremap", area, 4096, limit, 1, 0)
    pwn("moved into more")
except OSError:
    pass
end = call("brk", 0)
if call("brk", end + limit) == end + limit:
    pwn("the break")
area = call("mmap", 0, 64 << 10, 3, private | anonymous, -1, 0)
if works(call, "mlock", area, 64 << 10):
    pwn("locked memory")
if works(call, "mlockall", 2):
    pwn("locked all memory")
