"""Wait for input that never comes."""

# ends: ok error
input()
