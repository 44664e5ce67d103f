"""What the core decides about and what it answers: workloads, nodes, teams, intents and actions,
as frozen values.

No decision lives here, and nothing mutable: only values and the rules between their states.
Read `types` first, then `state` and `lifecycle`.
"""
