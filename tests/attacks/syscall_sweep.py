"""Every call that is not on the list, by its number."""

refused = {1, 38}
for number in HOST["unlisted"]:
    try:
        call(number, -1, -1, -1, -1, -1, -1)
        pwn(f"{number} answered")
    except OSError as error:
        if error.errno not in refused:
            pwn(f"{number} is reachable: {error}")
