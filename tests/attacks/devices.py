"""Open the devices of the machine."""

import glob

harmless = {"/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"}
found = set(glob.glob("/dev/*") + glob.glob("/dev/*/*"))
found |= {
    "/dev/" + name
    for name in "mem kmem kmsg port kvm fuse tty tty0 ptmx console loop-control loop0 vda vda1 sda sda1 "
    "nvidiactl nvidia0 net/tun vsock vhost-vsock vhost-net rtc0 hpet cpu/0/msr input/event0 "
    "mapper/control snapshot userfaultfd btrfs-control watchdog nvme0n1 dri/card0 snd/seq".split()
}
for path in sorted(found - harmless):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
        except OSError:
            continue
        if not os.path.isdir(path) or flags == os.O_WRONLY:
            pwn(f"opened {path}")
