"""Leave the memory behind as a file, or hand it to the host's handler of crashes."""

# ends: killed
import resource

if works(call, "prctl", 4, 1, 0, 0, 0):
    pwn("may be dumped")
if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
    pwn("the limit on core files can be raised")
for folder in (HOST["folder"], HOST["scratch_at"], "/tmp"):
    if works(os.chdir, folder):
        break
os.abort()
