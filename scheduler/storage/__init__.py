"""A name that pods of an earlier release still start; jobs' files last in `file_storage`.

Nothing new goes here, and nothing of ours imports it. Read `prepare`.
"""
