"""Little text that compiles to much."""

# ends: ok error killed memory timeout_cpu
# made: yes
CODES = ["(1<<19**8,)*4**7", "x = ((1,) * 2**30, 'a' * 2**30)", "'a'*10**9*10**9", "9**9**9**9"]
