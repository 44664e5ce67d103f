"""The next cluster while one cycle makes it, and the indexes that each change keeps up to date.

It says what is so and changes it. What should change is decided elsewhere.
Read `cycle_state` first.
"""
