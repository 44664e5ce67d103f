"""What the agent must know after a restart: open slices, their processes, devices chosen later.

Neither samples nor histories are kept.
Read `state_file` first.
"""
