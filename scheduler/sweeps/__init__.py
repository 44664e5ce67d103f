"""Many jobs over a search space, or over a list: what is started, paused, woken and ended next.

Pure: nothing here stores, submits, reads a clock or draws numbers. `background_tasks/sweeps.py` acts on what is
decided and asks the sampler, `service/jobs/sweeps.py` holds what people may do.
Read `sweep`, then `decision`.
"""
