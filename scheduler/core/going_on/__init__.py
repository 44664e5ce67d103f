"""How a stopped job goes on, and what a stop costs: from known facts alone, in the same words everywhere.

Whatever says what becomes of a job's work (screens, receipts, messages) takes it from here: none promises
more than another. Nothing here stops or starts a job.
Read `ways` first.
"""
