"""Alembic's changes of the tables, from one release to the next.

A version that was released is never edited.
"""
