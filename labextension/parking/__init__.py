"""A notebook is parked: its kernels' GPU memory goes to the host and back, and cells wait meanwhile.

Only what happens in this server lives here. How a process is parked knows `gpucommons.gpu.parking`; who
has the GPU meanwhile is the scheduler's to say. Read `parking` first.
"""
