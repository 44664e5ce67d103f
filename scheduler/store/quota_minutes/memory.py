"""Quota minutes without a disk: for tests, simulation and replays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName
from gpucommons.scheduler.store.quota_minutes.base import FOLDED_MS, QuotaMinute, added_up
from gpucommons.scheduler.store.schedules.base import Epoch


class MemoryQuotaMinutes:
    """See :class:`.base.QuotaMinuteStore`. ``check_lead`` raises for an epoch that is over."""

    def __init__(self, check_lead: Callable[[Epoch], None]) -> None:
        self._check_lead = check_lead
        self._lock = threading.Lock()
        self._kept: dict[tuple[Millis, PoolName, TeamName], QuotaMinute] = {}

    def put(self, epoch: Epoch, rows: Sequence[QuotaMinute]) -> None:
        """Add or replace."""
        with self._lock:
            self._check_lead(epoch)
            self._kept |= {(row.minute_ms, row.pool, row.team): row for row in rows}

    def sums(self, *, from_ms: Millis, to_ms: Millis, step_ms: int) -> tuple[QuotaMinute, ...]:
        """By time, pool and team."""
        with self._lock:
            found = [row for row in self._kept.values() if from_ms <= row.minute_ms < to_ms]
        return added_up(found, step_ms)

    def fold(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """Quarters of an hour instead of minutes."""
        end_ms = before_ms - before_ms % FOLDED_MS
        with self._lock:
            self._check_lead(epoch)
            old = {key: row for key, row in self._kept.items() if row.minute_ms < end_ms}
            folded = [
                replace(row, minute_ms=Millis(row.minute_ms - row.minute_ms % FOLDED_MS))
                for row in added_up(old.values(), FOLDED_MS)
            ]
            self._kept = {key: row for key, row in self._kept.items() if key not in old}
            self._kept |= {(row.minute_ms, row.pool, row.team): row for row in folded}
        return len(old) - len(folded)

    def drop(self, epoch: Epoch, *, before_ms: Millis) -> int:
        """Forget what is older."""
        with self._lock:
            self._check_lead(epoch)
            before = len(self._kept)
            self._kept = {k: row for k, row in self._kept.items() if row.minute_ms >= before_ms}
            return before - len(self._kept)
