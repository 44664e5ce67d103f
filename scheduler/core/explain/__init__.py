"""Why somebody waits, what is in the way, and the smallest change that would help, in sentences.

Nothing here changes the cluster.
Read `reasons` first.
"""
