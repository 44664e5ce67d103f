"""PID 1 of a hibernatable tree, and the process that stands for it outside.

Started by path in an isolated interpreter: it needs nothing but Python's standard library and the
modules of this folder and the one above. Two of these interpreters live beside each tree, so they
stay small.

Read `pid_one` first.
"""
