"""One node as a whole: readings of its devices, the simulated one, and what it can enforce.

Only `nvml` asks the driver; here is what it is asked for.
Read `telemetry` first.
"""
