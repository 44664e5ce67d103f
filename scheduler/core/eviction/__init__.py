"""Who has to be stopped so that somebody fits: no more than needed, with the least work lost.

Who may be stopped for whom is a policy; the passes choose one and ask the solver.
Read `policies` first, then `solver`.
"""
