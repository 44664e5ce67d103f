"""The wall clock, in the unit of all moments here: what needs it takes it as an argument where it is tested."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Now, UTC."""
    return time.time_ns() // 1_000_000
