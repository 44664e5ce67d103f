"""How others speak to a node agent: calls, the two ways there, and the JSON between.

The agent itself does not live here; both sides share `wire`.
Read `agent_client` first.
"""
