"""What each team has held since the month began, without adding the whole month up at each look.

A ledger has a row for each workload and minute. Minutes that were over an hour ago are added up once
and remembered; only later ones are asked for. After six hours all of it is added up anew, since a
scheduler that was away for long writes minutes late.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName
from gpucommons.scheduler.service.in_memory.newest import keep
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.reports.base import Steps, UsageSum

Held = Mapping[tuple[TeamName, PoolName], int]

_HOUR_MS = 3_600_000
_ANEW_AFTER_MS = 6 * _HOUR_MS
#: A month and its changes of prices.
_REMEMBERED = 64


@dataclass(kw_only=True, slots=True)
class _Sum:
    made_ms: int
    until_ms: int
    held: Counter[tuple[TeamName, PoolName]] = field(default_factory=Counter)


class HeldSoFar:
    """Sums by team and pool, in milli-GPU·milliseconds. May be used from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._sums: dict[int, _Sum] = {}

    def between(self, store: Store, from_ms: int, to_ms: int, now_ms: int) -> Held:
        """What was held in a span whose beginning stays the same from look to look."""
        with self._turn:
            known = self._sums.get(from_ms)
            if known is None or now_ms - known.made_ms >= _ANEW_AFTER_MS or known.until_ms > to_ms:
                known = _Sum(made_ms=now_ms, until_ms=from_ms)
            over_ms = min(to_ms, now_ms - now_ms % _HOUR_MS - _HOUR_MS)
            if over_ms > known.until_ms:
                known.held += _added(_rows(store, known.until_ms, over_ms))
                known.until_ms = over_ms
            keep(self._sums, from_ms, known, most=_REMEMBERED)
            return known.held + _added(_rows(store, known.until_ms, to_ms))


def _rows(store: Store, from_ms: int, to_ms: int) -> tuple[UsageSum, ...]:
    return store.reports.usage(Steps(from_ms=Millis(from_ms), to_ms=Millis(to_ms)))


def _added(sums: Iterable[UsageSum]) -> Counter[tuple[TeamName, PoolName]]:
    held: Counter[tuple[TeamName, PoolName]] = Counter()
    for one in sums:
        held[one.team, one.pool] += one.held
    return held
