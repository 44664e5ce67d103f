"""The real core in virtual time: for forecasts, replays under other quotas, tests and benchmarks.

Nothing here changes what is stored.
Read `engine` first.
"""
