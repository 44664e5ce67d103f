"""What other people's programs find of ours by entry points: they speak to the client, and nobody imports them.

One file for each program. Read :mod:`.submitit` first.
"""
