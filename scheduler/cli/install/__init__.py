"""``gpucommons install``: what an admin's own values file needs, shown as a diff, made and undone.

Only values of Zero to JupyterHub are known. Nothing here speaks to a cluster: the admin's own
``helm upgrade`` does. Read :mod:`.changes` first.
"""
