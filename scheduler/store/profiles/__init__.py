"""Where the profiles of teams are kept.

What one says is not understood here: that is the service's.
Read `base` first.
"""
