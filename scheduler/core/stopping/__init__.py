"""How something is stopped: first the notice, then SIGTERM, the grace, and SIGKILL.

It says how an attempt is stopped and when, never who should be: that is decided in `eviction`.
Read `notice` first.
"""
