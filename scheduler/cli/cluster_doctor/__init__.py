"""``gpucommons doctor --cluster``: whether a release of ours and its hub fit the cluster that they are in.

It reads with the caller's own kubeconfig, and asks the API server what our accounts may; it changes
nothing. What the caller may not read is said in its line. Read `cluster` first, then `command`.
"""
