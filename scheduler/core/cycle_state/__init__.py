"""The next cluster while one cycle makes it, and the indexes that each change keeps up to date.

No policy lives here: it says what is so, and how to change it, never what should change.
Read `cycle_state` first.
"""
