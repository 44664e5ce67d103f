"""``gpucommons pipeline``: jobs that belong together, from a file.

What runs next is the scheduler's to know. Read :mod:`.commands` first.
"""
