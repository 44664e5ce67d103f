"""Objects of the API: our names and labels on them, and the few fields that decisions need.

What they mean is worked out above.
Read `names` first, then `observed_objects`.
"""
