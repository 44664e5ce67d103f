"""Settings in, one running scheduler out: every part is made here and handed to those that need it.

Nothing is decided here, and nothing below may import it.
Read `app` first, then `execution_backend`.
"""
