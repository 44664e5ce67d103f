"""Trees on a machine that forbids user namespaces: root starts them, as their user, with one capability.

Root takes an account, a folder's name and a command, becomes that user, and looks at nothing of the
user's before that. ``rights`` is what it keeps and for how long, ``checked_copy`` why no image brings
more rights than its user has.
"""
