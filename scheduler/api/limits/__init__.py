"""How much one caller may ask at once: connections, places for who waits, turns, lengths of bodies.

Who the caller is has been found out before.
Read `places` first.
"""
