"""Slices of pods: made by our node agent, or by another system of the cluster.

Pure: only what goes into a pod is written, nothing is asked of a node.
Read `pods` first, then `cluster`.
"""
