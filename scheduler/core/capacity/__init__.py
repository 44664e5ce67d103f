"""What is held and what is free on each device and node, and the slots that are left for new work.

Nothing here knows a queue, a quota or a victim.
Read `capacity` first.
"""
