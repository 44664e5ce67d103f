"""``gpucommons install``: what an admin's own file needs, shown as a diff, made and undone.

Values of Zero to JupyterHub, in :mod:`.changes`, and the ``jupyterhub_config.py`` of a hub on one
machine, in :mod:`.python_config`; The Littlest JupyterHub in :mod:`.littlest`. Nothing here speaks to a cluster or a hub: the admin's own
``helm upgrade`` or restart does. Read :mod:`.changes` first.
"""
