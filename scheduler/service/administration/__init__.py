"""Use cases of admins and of whoever looks back: quotas, configuration, nodes, replays, reports.

What users do with jobs and notebooks stands in `jobs` and `leases`.
Read `settings` first.
"""
