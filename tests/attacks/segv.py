"""Crash."""

# ends: killed
import ctypes

ctypes.string_at(0)
