"""How much one caller may ask at once: connections, places for who waits, requests that run, lengths of bodies.

Who the caller is has been found out before.
Read `places` first, then `concurrent_requests`.
"""
