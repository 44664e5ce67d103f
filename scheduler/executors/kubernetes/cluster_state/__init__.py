"""The cluster as it was last seen: our objects, notebooks' pods, reserved slots, nodes on offer.

It says what is; what is due is worked out in `reconciling`.
Read `cluster_view` first, then `offered_nodes`.
"""
