"""The scheduler's nodes from the cluster's: pools, slots, reservations, other systems' slices.

Pure but for `installed`; nothing of attempts is known here.
Read `cluster_nodes` first.
"""
