"""What runs in a session for `_exchange.py`: the text of a program, never run here.

In    nothing
Out   PROGRAM, which defines `exchange`: it writes the files that it is told of, and shows those
      that there are
Not   trusted: the code of the session may have changed whatever this calls
"""

from __future__ import annotations

from typing import Final

PROGRAM: Final = r"""
class exchange:
    # One name, so that the variables of the code are left alone.
    def lay_out(self, root, changes):
        import base64, os, shutil
        for what, path, content in changes:
            full = f"{root}/{path}"
            if what == "clear":
                for name in os.listdir(root):
                    inner = f"{root}/{name}"
                    is_folder = os.path.isdir(inner) and not os.path.islink(inner)
                    shutil.rmtree(inner) if is_folder else os.unlink(inner)
                continue
            if what != "append" and os.path.lexists(full):
                is_folder = os.path.isdir(full) and not os.path.islink(full)
                shutil.rmtree(full) if is_folder else os.unlink(full)
            if what == "delete":
                continue
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "ab" if what == "append" else "wb") as file:
                file.write(base64.b64decode(content))

    def show(self, root, name, most):
        import base64, os, re, stat
        lines, size, others = [], 0, 0
        for folder, inner, names in os.walk(root):
            plain = [one for one in inner if re.fullmatch(name, one)]
            links = [one for one in plain if os.path.islink(f"{folder}/{one}")]
            inner[:] = sorted(set(plain) - set(links))
            others += len(links)
            for one in sorted(names):
                full = f"{folder}/{one}"
                if one.startswith("."):
                    continue
                if not re.fullmatch(name, one) or not stat.S_ISREG(os.lstat(full).st_mode):
                    others += 1
                    continue
                size += os.lstat(full).st_size
                if size > most[0] or len(lines) >= most[1]:
                    os.write(1, f"too-much {most[0]} {most[1]}\n".encode())
                    return
                with open(full, "rb") as file:
                    content = base64.b64encode(file.read()).decode()
                lines.append(f"{full[len(root) + 1:]} {content}\n")
        data = "".join([*lines, f"end {len(lines)} {others}\n"]).encode()
        while data:
            data = data[os.write(1, data):]
"""
