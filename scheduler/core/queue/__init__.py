"""Who is considered, in which order, and who has to wait for what before they are considered.

Nothing here looks for places or victims.
Read `ordering` first, then `eligibility`.
"""
