"""How fast a job is with how many workers, by its own reports, and what another size would bring.

Nothing here changes a size: that is for `passes`, `placement` and `events`. Read `gain` first.
"""
