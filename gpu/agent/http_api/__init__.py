"""The agent's door to other machines: HTTP with a token, in threads of its own.

What is asked there is answered by the control socket's requests, never by the door itself.
Read `door` first.
"""
