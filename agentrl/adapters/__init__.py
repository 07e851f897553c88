"""Adapters: other people's environments as environments of ours, one file each.

In    a name, as the other package has it
Out   `environment(name)` of each module: a ToolEnv class, its options those of the other side
Not   imported before a text such as `gem/ID` asks for one: adapted.py does that
"""
