"""The numbered steps of a cycle that start work: notebooks, guarantees, surplus, preemption,
reclaim, moves.

Searching places and victims is done below; here stands only who may have what, in which order.
Read `notebooks` and `guarantee` first.
"""
