"""In a session: die in a cell, then ask for what was there."""

# kind: session
# ends: ok error killed
kept = 1
# --- then
os._exit(0)
# --- then

if "kept" in globals():
    print("still here")
