"""What open tabs are told without asking: jobs, leases, usage, logs and curves.

No request is answered here; who asks comes through `routes`.
Read `feed` first, then `fanout`.
"""
