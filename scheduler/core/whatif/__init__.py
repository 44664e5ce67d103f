"""What would happen if: cycles on a copy of the cluster, for quotes, sizes of the form and *why*.

Nothing here is stored or carried out.
Read `quotes` first.
"""
