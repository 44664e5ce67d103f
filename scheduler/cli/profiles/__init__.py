"""Commands about profiles, and what `submit` and `apply` take of them.

What a profile says is checked by the service.
Read `commands` first.
"""
