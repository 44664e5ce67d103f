"""Jobs that start again and again: when one is due, and what becomes of each time it was.

Pure: nothing here stores, submits or reads a clock. `background_tasks/schedules.py` acts on what is decided,
`service/schedules` holds what people may do.
Read `due_runs` first.
"""
