"""The agent's HTTP API for other machines: with a token, in threads of its own.

What is asked there is answered by the control socket's requests, never by the HTTP server itself.
Read `http_server` first.
"""
