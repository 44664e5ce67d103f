"""What our templates add to the hub's own pages, and where browsers find them.

The form of a start lies in `form`.
Read `addresses` first.
"""
