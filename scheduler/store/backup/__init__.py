"""Everything that a database holds as one file, and a new database of such a file.

One form for SQLite and PostgreSQL. No rule of the scheduler stands here, and nothing of jobs' files.
Read `tables` first; `file` knows no database.
"""
