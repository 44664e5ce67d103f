"""What the cluster's objects mean for an attempt: whether it runs, how it ended, what is in its way.

Pure but for `witnesses`; nothing is ordered here.
Read `observed_state` first, then `records`.
"""
