"""Windows in plain words, rounded as people speak: ``10–25 min``, ``1–2 h``, ``under 5 min``.

Rounded outwards, so that the words promise no more than the numbers did.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

_MINUTE = 60_000
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
#: Times that people say, in milliseconds; beyond, whole days.
_SAID = (0, 1, 2, 3, 5, *range(10, 65, 5), 75, 90)
_MARKS: tuple[int, ...] = (
    *(minutes * _MINUTE for minutes in _SAID),
    *(hours * _HOUR for hours in (2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 24, 36, 48)),
)
#: Up to here in minutes, up to here in hours.
_LAST_MINUTES, _LAST_HOURS = 90 * _MINUTE, 48 * _HOUR


def rounded_down(length_ms: int) -> int:
    """The next time that people say, at most this long."""
    if length_ms >= _MARKS[-1]:
        return length_ms // _DAY * _DAY
    return _MARKS[max(0, bisect_right(_MARKS, length_ms) - 1)]


def rounded_up(length_ms: int) -> int:
    """The next time that people say, at least this long and more than nothing."""
    if length_ms > _MARKS[-1]:
        return -(-length_ms // _DAY) * _DAY
    return _MARKS[max(1, bisect_left(_MARKS, length_ms))]


def wide(from_ms: int, to_ms: int, *, horizon_ms: int) -> str:
    """A wide window, each end in its own unit: ``between 5 min and 3 h``, ``within 3 h``."""
    end = "two weeks or more" if to_ms >= horizon_ms else length(to_ms)
    if not from_ms:
        return f"within {end}"
    if from_ms >= to_ms:
        return f"in {end}" if to_ms >= horizon_ms else f"about {end}"
    number, unit = length(from_ms).split()
    return f"between {number if end.endswith(unit) else f'{number} {unit}'} and {end}"


def length(length_ms: int) -> str:
    """A rounded length in the unit in which people say it: ``5 min``, ``3 h``, ``2 d``."""
    unit, name = _unit(length_ms)
    return f"{-(-length_ms // unit)} {name}"


def _unit(length_ms: int) -> tuple[int, str]:
    if length_ms <= _LAST_MINUTES:
        return _MINUTE, "min"
    return (_HOUR, "h") if length_ms <= _LAST_HOURS else (_DAY, "d")


def span(from_ms: int, to_ms: int) -> str:
    """A rounded window: ``10–25 min``."""
    unit, name = _unit(to_ms)
    low, high = from_ms // unit, -(-to_ms // unit)
    if low == 0:
        return f"under {high} {name}"
    return f"about {high} {name}" if low == high else f"{low}–{high} {name}"
