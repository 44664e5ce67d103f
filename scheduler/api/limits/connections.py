"""How many connections the API may have, how many of them may wait or do nothing, and for how long.

It shares its process and its descriptors with the pages, the store and the snapshots: all these
together stay within three quarters of what the process may have open.
"""

from __future__ import annotations

from gpucommons.gpu.connections import open_file_limit

#: Enough for people and their proxies; each costs some kilobytes where it is in use.
_MOST_HALF_OPEN = 1024
_MOST_IDLE = 2048
#: Who reads an answer takes some of it in this time: what nobody takes would fill the memory here.
READ_S = 30.0


def max_connections() -> int:
    """Half of the descriptors that this process may have."""
    return open_file_limit.limit() // 2


def max_waiting() -> int:
    """Half of them: the others are for those who ask and go."""
    return max_connections() // 2


def max_half_open() -> int:
    """Whose head is not here yet, and as many more whose body is not."""
    return min(_MOST_HALF_OPEN, open_file_limit.limit() // 16)


def max_idle() -> int:
    """Kept open between two requests."""
    return min(_MOST_IDLE, open_file_limit.limit() // 8)
