"""Notebook servers on slices of GPUs, for any JupyterHub: as processes or as pods.

The scheduler is reached through its client alone. Configuration files name the modules of this folder.
Read `lease` first, then `local` or `kube`.
"""
