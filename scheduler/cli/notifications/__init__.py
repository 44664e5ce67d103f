"""``gpucommons notify``: what one is told by mail and webhook.

Who is told of what is the scheduler's to know. Read `commands` first.
"""
