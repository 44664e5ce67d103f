"""``gpucommons schedule`` and ``gpucommons submit --schedule``: jobs that start again and again.

What is due, and what becomes of a time, is the scheduler's to know. Read :mod:`.commands` first.
"""
