"""Which month the report is of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from gpucommons.scheduler.errors import BadRequest

_DECEMBER = 12
#: Time is counted from then.
_FIRST_YEAR = 1970


@dataclass(frozen=True, kw_only=True, slots=True)
class Month:
    """A calendar month, UTC."""

    #: ``2026-11``.
    key: str
    from_ms: int
    to_ms: int


def month_of(text: str, now_ms: int) -> Month:
    """Read ``2026-11``; nothing means the present month.

    Raises
    ------
    BadRequest
        Where it is no month, or one that no report can be of.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    start = _read(text, now) if text else now
    start = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (
        start.replace(year=start.year + 1, month=1)
        if start.month == _DECEMBER
        else start.replace(month=start.month + 1)
    )
    return Month(
        key=start.strftime("%Y-%m"),
        from_ms=int(start.timestamp() * 1000),
        to_ms=int(following.timestamp() * 1000),
    )


def _read(text: str, now: datetime) -> datetime:
    try:
        start = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        start = None
    if start is None or not _FIRST_YEAR <= start.year <= now.year + 1:
        message = (
            f"{text[:20]!r} is not a month that can be reported: write it as {now:%Y-%m},"
            f" from {_FIRST_YEAR}-01 to {now.year + 1}-12."
        )
        raise BadRequest(message)
    return start
