"""The version of this package, in one place.

In    nothing
Out   __version__: what `agentrl --version` prints and every run records
Not   the version of a run's weights: that is a number in the run itself
"""

__version__ = "0.1.0"
