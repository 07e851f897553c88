"""The gate of 32-bit programs, where the same numbers mean other calls."""

# ends: ok error killed
import ctypes
import mmap

if HOST["machine"] == "x86_64":
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # push rbx; mov eax,N; xor ebx,ebx; int 0x80; pop rbx; ret
    for number in (20, 2):
        code = b"\x53\xb8" + number.to_bytes(4, "little") + b"\x31\xdb\xcd\x80\x5b\xc3"
        area.seek(0)
        area.write(code)
        gate = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))
        answer = gate()
        if answer == 0:
            os._exit(0)
        if answer > 0:
            pwn(f"call {number} of 32 bits answered {answer}")
