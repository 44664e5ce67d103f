"""Who has to be stopped so that somebody fits: no more than needed, with the least work lost.

Whether anybody may be stopped at all is decided by the passes, which call this.
Read `victims` first, then `search`.
"""
