"""What a user is asked before a start: the form, what its answer says, and how a start is refused.

No slice is taken here.
Read `form_mixin` first, then `answers`.
"""
