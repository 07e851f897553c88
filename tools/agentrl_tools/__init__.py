"""Tools that environments hand to a policy: each module is one tool, usable on its own."""
