"""The store in SQLite or PostgreSQL: connections, transactions, what is read and written in them.

No rule stands here that the memory store would need, too: those are in `rules`.
Read `store` first.
"""
