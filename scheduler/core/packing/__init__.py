"""How well a place suits: scores of nodes and devices by the fragmentation gradient, on arrays.

Only numbers come in here, no workloads, teams or clusters.
Read `gradient` first, then `score_board`.
"""
