"""The REST API: routes, who calls them, and what a caller may cost.

No rule of the scheduler stands here; each route calls one use case of `service`.
Read `app` first, then `routes`.
"""
