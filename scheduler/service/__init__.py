"""Use cases: what may be asked of the scheduler, by whom, and what is answered.

Plain functions `(service, principal, request) -> view`. HTTP and SQL stay outside.
What an hour costs in a pool is said by `core.model.resources`, what a job's minutes came to by `costs`.
Read `service` first, then `jobs.jobs` and `leases`.
"""
