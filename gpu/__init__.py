"""GPUs of one machine: shares of devices, what keeps programs to theirs, and the node agent.

Nothing here knows the scheduler, a team or a job. The folders stand in layers (see `pyproject.toml`).
Read `slices.slices` first, then `agent.watch`.
"""
