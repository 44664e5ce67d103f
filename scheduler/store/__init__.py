"""Durable memory: workloads, events, quotas, usage; in SQLite or PostgreSQL, in memory for tests.

Only this folder speaks SQL, and no decision stands here. Files of jobs: `file_storage`.
Read `base` first.
"""
