"""What a machine offers: devices, their kinds and names, and the driver's memory limits.

No share of a device and no process is known here.
Read `devices` first.
"""
