"""Files that last and folders that others may rearrange: written whole, opened without following links.

No job and no team is known here; most of it runs with the standard library alone.
Read `confined_files` first.
"""
