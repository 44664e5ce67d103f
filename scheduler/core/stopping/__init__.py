"""How a stop goes: first the notice, then the grace.

It says how an attempt is stopped and when, never who should be: that is decided in `eviction`.
Read `notice` first.
"""
