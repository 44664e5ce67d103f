"""The wire format of notebooks: leases and tickets, what is on offer, what servers do.

Only fields and their bounds; rules that need the cluster live in the intake.
Read `leases` first.
"""
