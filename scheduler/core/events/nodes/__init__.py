"""What admins, clusters and clouds say of nodes: fenced, cordoned, lost, back, taken back.

What a node's state means for places is in `capacity`; what ends with a node ends by `events.endings`.
Read `cordon_and_fence` first.
"""
