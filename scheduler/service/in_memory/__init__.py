"""What the service knows only while it runs: activity, slices of notebooks, allowances, trial cycles.

Nothing here is stored, and after a restart all of it is found out anew.
Read `activity` first.
"""
