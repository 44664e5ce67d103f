"""Slices of a node: each way to keep a program to its share, from MIG to a hint.

Which of them are used together, `stack` decides above.
Read `exclusive` first, then `shim`.
"""
