"""Loop for ever, deaf to every signal that can be ignored."""

# ends: timeout_cpu timeout_wall
# burns: yes
import signal

for number in range(1, 65):
    works(signal.signal, number, signal.SIG_IGN)
while True:
    pass
