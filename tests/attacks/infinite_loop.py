"""Loop for ever."""

# ends: timeout_cpu
# burns: yes
while True:
    pass
