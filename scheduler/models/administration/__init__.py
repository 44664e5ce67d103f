"""The wire format of what admins set: pools, teams, nodes, the whole configuration.

Only fields and their bounds; rules that need the cluster live in the intake.
Read `configuration` first.
"""
