"""Ends notebook servers that do nothing, and says so before.

It talks to the hub and to the scheduler's client alone. What *Keep* does, and how often, is decided with the
notebook's slice, in `scheduler.core.events.leases`.
Read `app` first.
"""
