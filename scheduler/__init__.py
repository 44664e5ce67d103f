"""The scheduler: its core, what carries out decisions, and the interfaces through which it is asked.

The folders stand in layers, from `errors` up to `cli`: see `pyproject.toml`.
What a pool has that says nothing (notice, half-life, when it lends) is in `pool_defaults`.
Read `wiring.app` for the whole, `core` for decisions, `service` for use cases.
"""
