"""A small program of root's above a notebook server whose user may make no user namespaces.

The hub starts it in the server's place, and it starts the server. It does one thing for that server:
it starts trees that can be saved, as their user, with ``inside.by_root``. Saving, and all that touches
a folder or an image, is the user's own as everywhere. Read ``orders`` first (what may be asked), then
``program`` (root's side, started by ``launch`` out of ``standing``), ``asker`` (what stands in the server
for a tree), ``begin``.
"""
