"""Which of several schedulers leads: a lock of the store, or a Lease of the cluster.

What a leader does is not known here.
Read `base` first.
"""
