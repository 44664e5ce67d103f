"""How many connections there may be, and how many of them may wait."""

from __future__ import annotations

from gpucommons.gpu import descriptors


def max_connections() -> int:
    """Three quarters of the descriptors that this process may have: files need some, too."""
    return descriptors.limit() * 3 // 4


def max_waiting() -> int:
    """Half of them: the others are for those who ask and go."""
    return max_connections() // 2
