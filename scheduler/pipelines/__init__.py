"""Jobs that belong together: each step runs once what it needs is there.

Pure: nothing here stores, submits or reads a clock. `background_tasks/pipelines.py` acts on what is decided,
`service/pipelines` holds what people may do. Read `next_steps` first.
"""
