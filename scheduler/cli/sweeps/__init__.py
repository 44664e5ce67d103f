"""``gpucommons sweep``: many jobs over a search space or a list.

What is begun, paused and ended is the scheduler's to know. Read :mod:`.commands` first.
"""
