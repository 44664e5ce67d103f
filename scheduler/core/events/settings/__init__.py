"""What admins set: teams, quotas, policies, pools and budgets, and what the audit says of each change.

What a setting means for who may start is decided elsewhere; nodes are in `events.nodes`.
Read `settings` first.
"""
