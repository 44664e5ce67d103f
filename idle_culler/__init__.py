"""Ends notebook servers that do nothing, and says so before.

It talks to the hub and to the scheduler's client alone.
Read `app` first.
"""
