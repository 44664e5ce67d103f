"""The GPU memory of a live process is moved to the host and back, with NVIDIA's driver.

The process lives on and holds no GPU meanwhile; what it asks of the GPU waits. It is done by its own
user and with no right beyond theirs, in a process of its own: a driver's call may take its time,
fail for good or crash. Linux only.

Nothing here knows a notebook or a job. Read `parking` first, then `sequence`.
"""
