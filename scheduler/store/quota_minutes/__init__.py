"""Where it is kept how large pools and quotas were, minute by minute, and what teams lent of them.

What was held is not kept here: that is the ledger's.
Read `base` first.
"""
