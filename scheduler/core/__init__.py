"""The scheduling core: a pure function. A cluster and what happened go in; the next cluster and actions come out.

No I/O, no clock, no randomness: `now` is an argument. `advance` applies events and runs a cycle,
`cycle` holds the order of its steps. The folders stand in layers (see `pyproject.toml`):
`packing model elastic going_on capacity quota cycle_state stopping queue placement eviction passes events
explain whatif`.
Read `cycle` first; `docs/explanation/words.md` explains the names.
"""
