"""Block in a call that nothing wakes."""

# ends: ok error timeout_wall
# burns: yes
reading, writing = os.pipe()
os.read(reading, 1)
