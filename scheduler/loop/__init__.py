"""The one thread that decides: what came in, one step of the core, one commit, then the acts.

No rule of scheduling stands here, and no request is answered.
Read `loop` first, then `acting`.
"""
