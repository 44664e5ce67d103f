"""Use cases of jobs: submit, look, steer, and what a running attempt reports and hands over.

What becomes of a job is decided by the core.
Read `jobs` first, then `attempts`.
"""
