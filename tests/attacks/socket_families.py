"""Every family of sockets there is."""

for family in range(47):
    for kind in (1, 2, 3, 5):
        if works(call, "socket", family, kind, 0):
            pwn(f"family {family} kind {kind}")
        elif family not in (0, 1) and works(call, "socketpair", family, kind, 0, 0):
            pwn(f"pair of family {family}")
