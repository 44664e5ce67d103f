"""How a stopped job goes on, and what a stop costs: known facts alone, in the same words
everywhere.

Every screen, receipt and message that says what becomes of a job's work takes it from here, so
that
none can promise more than another.
"""
