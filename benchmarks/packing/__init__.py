"""How full GPUs get: jobs of several sizes on the core and on plain packing rules.

Read `__main__` first.
"""
