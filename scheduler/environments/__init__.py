"""Which Python a job runs with: found, named and checked by reading, never by running it.

A job's ``environment`` is stored as the folder that the name, path or link led to when it was
submitted, so that rules hold for what really runs, and the same choice in any interface is the same spec.
Only the standard library is imported here: on a machine with accounts the looking is done by a
process of the user's.
"""
