"""What reports ask of the ledger and of jobs that are over, added up by the store; nothing is kept here.

Read `base` first.
"""
