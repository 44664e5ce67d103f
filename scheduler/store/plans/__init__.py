"""Where it is kept which plans were offered, and what became of the jobs that took one.

An offer is needed until its job is submitted, which has it in its spec; the outcome stays as long as
history does. Read `base` first.
"""
