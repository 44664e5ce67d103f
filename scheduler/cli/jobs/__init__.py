"""Commands about one job, or the list of them: each module has the options of its commands, and what they do.

What makes a job is in `cli/submit`; what an admin does is in `cli/operating`.
"""
