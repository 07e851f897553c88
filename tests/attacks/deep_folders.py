"""Folders so deep that whoever cleans up by walking them falls."""

# ends: ok error
for _ in range(3_000):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
