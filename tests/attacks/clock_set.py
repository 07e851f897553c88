"""Set the clock, the name of the host, and what else belongs to everybody."""

# Only calls whose arguments the kernel would refuse even to root.
import ctypes

bad = ctypes.addressof((ctypes.c_long * 32)(*[-1] * 32))
for name, arguments in {
    "clock_settime": (0, bad),
    "settimeofday": (bad, 0),
    "clock_adjtime": (0, bad),
    "adjtimex": (bad,),
    "sethostname": (bad, -1),
    "setdomainname": (bad, -1),
    "swapoff": (0,),
    "quotactl": (-1, 0, 0, 0),
    "syslog": (-1, 0, 0),
    "acct": (-1,),
}.items():
    try:
        call(name, *arguments)
        pwn(f"{name} answered")
    except OSError as error:
        if error.errno not in (1, 38):
            pwn(f"{name} is reachable: {error}")
