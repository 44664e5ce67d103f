"""Where pipelines are kept: what owners wrote and where it stands, which different writers write.

Nothing is decided here.
Read `base` first.
"""
