"""The process that shares everything until it runs something else."""

# bare: dangerous
import ctypes

if HOST["machine"] == "x86_64":
    import mmap

    # mov eax,58; syscall; test eax,eax; jnz +9; mov eax,60; xor edi,edi; syscall; ret
    code = bytes.fromhex("b83a0000000f0585c07509b83c00000031ff0f05c3")
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(code)
    run = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(area)))
    if run() > 0:
        pwn("vfork")
