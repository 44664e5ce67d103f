"""What the operating system says and does: processes, signals, mounts, control groups of pods.

No device and no slice is known here.
Read `processes` first.
"""
