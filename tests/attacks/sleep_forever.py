"""Sleep: no processor time is used, so only the clock on the wall ends it."""

# ends: timeout_wall
# burns: yes
import time

time.sleep(10_000)
