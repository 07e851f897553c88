"""Leave at once, past everything that would be reported."""

# ends: ok error
print("left early", flush=True)
os._exit(0)
