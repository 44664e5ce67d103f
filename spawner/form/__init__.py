"""What a user is asked before a start: the form, what its answer says, and how a start is refused.

No slice is taken here.
Read `start_options` first, then `answers`.
"""
