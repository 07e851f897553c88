"""The same calls under the numbers of the other table of this processor."""

if HOST["machine"] == "x86_64":
    for number in (39, 57, 41, 512, 519, 520, 521):
        try:
            made = call(0x40000000 | number, 1, 1, 0, 0, 0, 0)
        except OSError:
            continue
        if made == 0 and number == 57:
            os._exit(0)
        pwn(f"{number} answered {made}")
