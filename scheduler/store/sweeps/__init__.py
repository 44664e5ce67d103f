"""Where sweeps are kept with their trials: owners write the sweep, the leader all the rest.

Nothing is decided here.
Read `base` first.
"""
