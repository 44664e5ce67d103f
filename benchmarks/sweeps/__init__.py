"""Searches on one virtual clock: ours beside Optuna alone and random search.

Only what is measured lives here; the controller is `scheduler/sweeps`. Read `__main__`.
"""
