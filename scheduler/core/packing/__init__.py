"""How well a place suits: scores of nodes and devices by the fragmentation gradient, on arrays.

Only numbers come in here, no workloads, teams or clusters. The policy in force is `foresight`, which scores rows of
nodes at once; `one_by_one` scores one row to the same figures, so a new term goes into both. `score_board` only keeps
scores until their node changes.
Read `gradient` first, then `foresight`.
"""
