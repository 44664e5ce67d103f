"""Sizes of saved memory, lengths of time and numbers of workers in words, the same in every sentence and on every screen."""

from __future__ import annotations

_KIB = 1024
#: Less is said to be less: no reader wants an exponent.
_LEAST_HOURS = 0.001


def size_words(size_bytes: int) -> str:
    """``12 MiB``, ``1.2 GiB``; what is smaller than a KiB is one."""
    size, units = max(0, size_bytes) / _KIB, ["KiB", "MiB", "GiB"]
    # What rounds up to the next unit is written in it.
    while size >= _KIB - 0.5 and len(units) > 1:
        size, units = size / _KIB, units[1:]
    return f"{size:.1f} GiB" if units == ["GiB"] else f"{max(1, round(size))} {units[0]}"


def duration(seconds: int) -> str:
    """Write a wait for people: ``40 s``, ``5 min``, ``2 h``."""
    if seconds < 120:  # noqa: PLR2004 - below two minutes, seconds say more
        return f"{seconds} s"
    minutes = -(-seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{-(-minutes // 60)} h"  # noqa: PLR2004 - as above


def workers(count: int) -> str:
    """``1 worker``, ``4 workers``."""
    return "1 worker" if count == 1 else f"{count} workers"


def hours(amount: float) -> str:
    """``1,200.5``; of less than one three digits, or a small budget seems unused."""
    if 0 < amount < _LEAST_HOURS:
        return f"<{_LEAST_HOURS:g}"
    return f"{amount:,.1f}" if amount >= 1 else f"{amount:.3g}"
