"""Attempts as processes of this machine, as the scheduler sees them.

What the supervisor of an attempt uses lies in `attempt`.
Read `local` first, then `launch_plan`.
"""
