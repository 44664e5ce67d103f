"""What people choose to be told, and the sums of their week.

Who is told of what stands in :mod:`gpucommons.scheduler.notifications`, when in the housekeeping.
Read `preferences` first.
"""
