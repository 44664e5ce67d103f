"""The scheduler and JupyterHub: calls to the hub, groups of users, notebook servers, attempts' tokens.

JupyterHub itself is never imported.
Read `hub` first, then `servers`.
"""
