"""How model families write tool calls, and how each is read back (`table.FORMATS`)."""
