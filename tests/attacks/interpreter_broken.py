"""Tear down what the interpreter needs to report anything."""

# ends: ok error killed
# may: NameError
import builtins
import sys

sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None
sys.excepthook = sys.displayhook = sys.unraisablehook = None
sys.modules.clear()
builtins.__dict__.clear()
raise ValueError("who reports this?")  # noqa: F821
# --- then
import io
import traceback

io.TextIOWrapper = traceback.print_exc = traceback.format_exception = None
traceback.TracebackException = int
raise ValueError("and this?")
# --- then
import sys

sys.settrace(lambda *_: sys.exit(3))
sys.setprofile(lambda *_: sys.exit(4))
raise ValueError("or this?")
