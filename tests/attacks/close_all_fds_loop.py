"""Close every descriptor, then loop: whoever waits for the end of the output must not be fooled."""

# ends: timeout_cpu timeout_wall
# burns: yes
os.closerange(0, 4096)
while True:
    pass
