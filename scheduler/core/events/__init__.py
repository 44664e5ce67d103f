"""What people ask for and what machines report, applied to the cluster before a cycle decides.

Nothing here starts work: an event changes facts, and the next cycle decides on them.
Read `applied_intents` first, then `observations`.
"""
