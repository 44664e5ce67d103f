"""Use cases: what may be asked of the scheduler, by whom, and what is answered.

Plain functions `(service, principal, request) -> view`. HTTP and SQL stay outside.
Read `service` first, then `jobs.jobs` and `leases`.
"""
