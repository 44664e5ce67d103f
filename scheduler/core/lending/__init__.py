"""What is not lent: GPUs that nobody holds and that borrowers may not have, each with its reason.

Headroom, lending pauses and unlent GPUs. What is kept for a team's fair share is decided in `passes`.
Read `kept_from_borrowers` first.
"""
