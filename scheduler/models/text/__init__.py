"""Words that every surface shares: states of work, and what is wrong with a field or a file.

Screens may add to them, but not say them otherwise.
Read `field_errors` first.
"""
