"""Steps 3 to 9 of a cycle: notebooks, guarantees, over-quota work, preemption, moves, elastic sizes, drills.

Who may have what is decided here, in which order. Places are searched in `placement`, victims in `eviction`.
Read `notebooks` and `guarantee` first.
"""
