"""Sandbox: run what a policy wrote, in a process that can do nothing else.

In    code as text, of any origin, also hostile
Out   Result: how it ended, what it printed, how it was held
Not   safe from faults of the kernel itself; and never a judge: what the code says is text
"""
