"""What the core decides about and what it answers: workloads, nodes, teams, intents, actions.

All of it is frozen values, and the moves that are allowed between their states. Nothing is decided here.
Read `types` first, then `state` and `lifecycle`.
"""
