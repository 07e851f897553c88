"""Leave a thread behind that keeps the process alive."""

# ends: ok error timeout_cpu timeout_wall
# burns: yes
import threading
import time

threading.Thread(target=time.sleep, args=(10_000,)).start()
