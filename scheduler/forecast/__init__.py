"""When work that waits is likely to start, and how right such forecasts have been.

A forecast decides nothing: the core starts work without it.
Read `forecaster` first, then `windows`.
"""
