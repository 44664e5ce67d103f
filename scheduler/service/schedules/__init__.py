"""Use cases about jobs that start again and again: what people do with them, and a run that is due.

When something is due is decided in `scheduler/schedules`. Read `schedules` first.
"""
